package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast/fence"
)

// send is the client of docs/fencing.md: a request with the token of the context.
func send(ctx context.Context, client *http.Client, url string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if err := fence.ResponseError(resp); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("orders: %s", resp.Status)
	}
	return nil
}

// A token that is not fenced off arrives; after a higher one it is refused, and the client sees why.
// An answer that is no refusal of a token is an error, too.
func ExampleTransport() {
	guard := fence.NewMemory()
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/orders/7" {
			http.NotFound(w, r)
		}
	})
	service := httptest.NewServer(fence.Handler(guard, nil, orders))
	client := &http.Client{Transport: fence.Transport(nil)}
	for _, token := range []fence.Token{1000, 1001, 1000} {
		ctx := fence.NewContext(context.Background(), token) // of lease.Context(), lease.Token()
		fmt.Println(token, send(ctx, client, service.URL+"/orders/7"))
	}
	ctx := fence.NewContext(context.Background(), 1002)
	fmt.Println(1002, send(ctx, client, service.URL+"/orders/8"))
	service.Close()
	fmt.Println("no service:", send(ctx, client, service.URL+"/orders/7") != nil)
	// Output:
	// 1000 <nil>
	// 1001 <nil>
	// 1000 holdfast: stale fencing token: 1000 for resource "/orders/7", which has seen 1001
	// 1002 orders: 404 Not Found
	// no service: true
}
