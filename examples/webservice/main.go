// Command webservice is a service to copy: an HTTP service of several processes that share the
// work. Its configuration comes from the environment (see config.go). It serves:
//
//	POST /orders/{id}   handles an order once, whichever process gets it; remembers it for 30 days
//	POST /report        makes a report, one at a time in the whole fleet
//	GET  /leader        which node runs the job
//	GET  /livez         whether this process is good for anything
//	GET  /readyz        whether it has its place in the fleet
//	GET  /metrics       the metrics of contrib/prometheus, which deploy/prometheus has alerts for
//	GET  /status/       the page of package httpstatus, read only: who has which lock, and why
//
// One process at a time runs the job, once a period. On SIGTERM a process finishes its requests and
// leaves: its locks are free at once. With a data directory it only closes, unless "webservice leave"
// has run before, in its environment: then it leaves for good.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast"
	nodemetrics "github.com/holdfast-go/holdfast/contrib/prometheus"
	"github.com/holdfast-go/holdfast/httpstatus"
)

const (
	answerTime  = 10 * time.Second // for a request that needs the fleet
	writeTime   = 10 * time.Second // for its answer to be read
	idleTime    = 2 * time.Minute  // for which a connection waits for the next request
	requestTime = 10 * time.Second // for requests that are under way when the process is told to stop
	jobName     = "cleanup"
	leaveTime   = 30 * time.Second // for Leave. An orchestrator must wait for both, and 15 s more

	// keepOrders is how long the fleet remembers an order that was handled. Take longer than a sender
	// goes on to repeat one. The fleet remembers 4,000,000 keys at most: 1.5 orders a second for 30 days.
	keepOrders = 30 * 24 * time.Hour
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	cfg, err := fromEnvironment(os.Getenv)
	switch {
	case err != nil:
	case len(os.Args) > 1 && os.Args[1] == "leave":
		err = cfg.meanToLeave()
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, cfg, log)
	}
	if err != nil {
		log.Error("webservice ends", "error", err)
		os.Exit(1)
	}
}

// service is what the handlers and the job need.
type service struct {
	cluster *holdfast.Cluster
	log     *slog.Logger
	figures *prometheus.Registry
	ready   atomic.Bool // Ready has returned once
}

// run is the life of the process, until ctx ends or something fails.
func run(ctx context.Context, cfg config, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &service{log: log, figures: prometheus.NewRegistry()}
	metrics := nodemetrics.New(nodemetrics.Config{})
	s.figures.MustRegister(metrics)
	cfg.holdfast.Logger, cfg.holdfast.Events = log, metrics.Events(holdfast.Events{}) // hooks of your own go in here
	cluster, err := holdfast.Open(ctx, cfg.holdfast)
	if err != nil {
		return err
	}
	metrics.Attach(cluster)
	s.cluster = cluster
	listener, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return errors.Join(err, cluster.Close())
	}
	log.Info("open", "node", cluster.ID(), "addr", cluster.Addr(), "http", listener.Addr().String())

	// Without a ReadTimeout, which would end the live feed of /status/: a handler of yours that reads a
	// body sets a read deadline itself. What /status/ serves sets its own write deadlines.
	server := &http.Server{
		Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout: answerTime + writeTime, IdleTimeout: idleTime,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	var jobs sync.WaitGroup
	jobs.Go(func() { s.waitReady(ctx) })
	jobs.Go(func() { s.work(ctx, cfg.every) })

	select {
	case <-ctx.Done():
		log.Info("told to stop")
	case <-cluster.Done(): // it has failed for good: only a new process serves again
		err = cluster.Err()
	case err = <-failed:
	}
	cancel() // the jobs end; requests get time to finish
	return errors.Join(err, s.stop(server, &jobs, cfg))
}

// stop ends the process in good order: first requests and jobs, then the node.
func (s *service) stop(server *http.Server, jobs *sync.WaitGroup, cfg config) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	ended := make(chan struct{})
	go func() { jobs.Wait(); close(ended) }()
	err := server.Shutdown(ctx)
	select {
	case <-ended:
	case <-ctx.Done():
	}
	leaves := cfg.leaves()
	if leaves && cfg.holdfast.DataDir != "" {
		err = errors.Join(err, os.Remove(cfg.leaveFile())) // the next process on the directory stays, also if this one fails to leave
	}
	if leaves && s.cluster.Err() == nil {
		// This process never comes back: another node votes in its place before Leave returns.
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		err = errors.Join(err, s.cluster.Leave(ctx))
	}
	err = errors.Join(err, s.cluster.Close()) // with a directory it comes back as the same node
	<-ended
	return err
}

// waitReady notes when the node has its place in the fleet. It never gives up: a fleet may be slow
// to start.
func (s *service) waitReady(ctx context.Context) {
	if err := s.cluster.Ready(ctx); err != nil {
		return // ctx has ended, or the node has failed, which run sees
	}
	s.ready.Store(true)
	s.log.Info("ready", "node", s.cluster.ID())
}

// work runs the job until ctx ends: once a period in the whole fleet, on the process that leads.
func (s *service) work(ctx context.Context, every time.Duration) {
	err := s.cluster.Every(ctx, jobName, every, func(ctx context.Context, slot time.Time, l *holdfast.Lease) error {
		// The work. Give the token to what it writes to, and return context.Cause(ctx) when ctx ends:
		// nil says that the slot is done.
		s.log.Info("cleanup", "slot", slot, "token", l.Token())
		return nil
	}, holdfast.WithLabel("webservice"))
	if ctx.Err() == nil { // the process goes on for its requests: let an alert look for this line
		s.log.Error("the job runs no more on this process", "error", err)
	}
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", within(answerTime, s.order))
	mux.Handle("POST /report", within(answerTime, s.report))
	mux.Handle("GET /leader", within(answerTime, s.leader))
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.figures, promhttp.HandlerOpts{}))
	// Each client that reaches the page reads the names and values of all locks: put your authentication around it.
	mux.Handle("GET /status/", http.StripPrefix("/status", httpstatus.Handler(s.cluster, httpstatus.Options{})))
	return mux
}

// within answers 503 after d: without it, requests that need a lock would hang for as long as the fleet
// cannot answer. The context of the request ends then. The handler may go on for up to a TTL, in which
// Do and Once wait for their last release.
func within(d time.Duration, handle http.HandlerFunc) http.Handler {
	return http.TimeoutHandler(handle, d, "the fleet does not answer: send it again\n")
}

// order handles an order once. Its sender may send it again, to any process, until it gets 200.
func (s *service) order(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	// Check that the order exists, and the sender's right to it, before this: every id that is handled
	// here takes a place among the keys that the fleet remembers.
	result, err := s.cluster.Once(r.Context(), "order/"+id, func(ctx context.Context, l *holdfast.Lease) error {
		// The work. If this process dies in it, another does it again, with a higher token. So give the
		// token to what the work writes to, and return context.Cause(ctx) when ctx ends: nil says that
		// the order is handled.
		s.log.Info("handled", "order", id, "token", l.Token())
		return nil
	}, holdfast.WithWait(), holdfast.WithKeepFor(keepOrders))
	switch {
	case err != nil:
		fail(w, err)
	case !result.Finished:
		http.Error(w, "not finished: send it again", http.StatusServiceUnavailable)
	default:
		fmt.Fprintf(w, "handled with token %d\n", result.Token)
	}
}

// report is made by one process at a time. Those that wait are served in order. It is sent after the
// lock is free: only then is it certain that the lease was not lost, and no slow reader holds the lock.
func (s *service) report(w http.ResponseWriter, r *http.Request) {
	var report string
	err := s.cluster.Do(r.Context(), "report", func(ctx context.Context, l *holdfast.Lease) error {
		report = fmt.Sprintf("report made with token %d\n", l.Token()) // the work; ctx ends if the lease is lost
		return nil
	})
	if err != nil {
		fail(w, err)
		return
	}
	fmt.Fprint(w, report)
}

func (s *service) leader(w http.ResponseWriter, r *http.Request) {
	l, err := s.cluster.Leader(r.Context(), jobName)
	if err != nil {
		fail(w, err)
		return
	}
	fmt.Fprintln(w, l.NodeID)
}

// fail answers an error of the fleet: it is for the caller to try again.
func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, holdfast.ErrNoLeader):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, holdfast.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, holdfast.ErrExhausted):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// livez fails when only a new process can help. That the fleet has no majority is no reason: a
// restart would not bring it back.
func (s *service) livez(w http.ResponseWriter, _ *http.Request) {
	if err := s.cluster.Err(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz holds up a rolling update until this process has its place in the fleet. Later it stays
// ready, also without a majority: what needs no lock is served on.
func (s *service) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		http.Error(w, "waits for its place in the fleet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
