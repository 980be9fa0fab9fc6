package prometheus_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast"
	fleet "github.com/holdfast-go/holdfast/contrib/prometheus"
	"github.com/holdfast-go/holdfast/contrib/prometheus/guard"
	"github.com/holdfast-go/holdfast/fence"
)

// A service exports its node, and the guard of what it writes to.
func Example() {
	ctx := context.Background()
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	metrics, checks := fleet.New(fleet.Config{}), guard.New()
	registry.MustRegister(metrics, checks)

	c, err := holdfast.Open(ctx, holdfast.Config{Events: metrics.Events(holdfast.Events{})}) // your own hooks, if you have any
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	metrics.Attach(c)

	orders := fence.NewMemory() // or fence.NewSQL, fence.NewRedis ...
	orders.Observe(checks.Of("orders"))

	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) // in a service: its GET /metrics
	defer server.Close()

	err = c.Do(ctx, "order/7", func(ctx context.Context, l *holdfast.Lease) error {
		return orders.Check(ctx, "order/7", fence.Token(l.Token()))
	})
	if err != nil {
		log.Fatal(err)
	}
	response, err := http.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "holdfast_leases_granted_total") || strings.HasPrefix(line, `holdfast_fence_checks_total{guard="orders",result="admitted"}`) {
			fmt.Print(line)
		}
	}
	// Output:
	// holdfast_fence_checks_total{guard="orders",result="admitted"} 1
	// holdfast_leases_granted_total 1
}
