package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httpstatus"
)

const (
	headTime = 10 * time.Second // for the head of a request
	endTime  = 2 * time.Second  // for requests under way when the page ends
)

func (a *app) uiCommand() *cobra.Command {
	var listen string
	var changes bool
	cmd := &cobra.Command{
		Use: "ui", GroupID: groupAsk, Args: cobra.NoArgs,
		Short: "Serve the page of the fleet on this machine",
		Long: "ui serves the page of package httpstatus as this client sees the fleet, until it is ended by a signal, and\n" +
			"prints its address. A client that reaches it reads the names, labels and values of all locks, and with\n" +
			"--changes may take locks away. The default is an address of this machine alone, which a page of another\n" +
			"site cannot use. Without a majority the page is there, and says so.",
		RunE: a.does(func(ctx context.Context, _ []string) error {
			ctx, stop := a.untilSignal(ctx)
			defer stop()
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := a.meets(ctx, c); err != nil {
				return err
			}
			return a.serve(ctx, c, listen, changes)
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to serve at; port 0: any")
	cmd.Flags().BoolVar(&changes, "changes", false, "permit changes: release, revoke, remove, transfer, forget")
	return cmd
}

// serve serves the page until ctx ends.
func (a *app) serve(ctx context.Context, c *holdfast.Cluster, listen string, changes bool) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return &exit{codeFailed, err, "Choose another address with --listen."}
	}
	opts := httpstatus.Options{Logger: a.log()}
	if changes {
		opts.Authorize = func(*http.Request) error { return nil }
	}
	server := &http.Server{Handler: local(listener.Addr(), httpstatus.Handler(c, opts)), ReadHeaderTimeout: headTime}
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(stopped)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		if err := server.Shutdown(within); err != nil {
			_ = server.Close()
		}
	})()
	if err := a.one(map[string]string{"url": "http://" + listener.Addr().String() + "/"}, func(w io.Writer) { fmt.Fprintf(w, "http://%s/\n", listener.Addr()) }); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// local refuses requests to an address of this machine alone that name another host: a page of another
// site may have its name lead here, and would read what this page shows.
func local(addr net.Addr, next http.Handler) http.Handler {
	if at, err := netip.ParseAddrPort(addr.String()); err != nil || !at.Addr().IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			http.Error(w, "this page is for this machine alone", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
