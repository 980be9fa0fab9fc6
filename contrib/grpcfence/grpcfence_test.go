package grpcfence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/holdfast-go/holdfast/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a service: Put and Read are single calls, Stream takes many messages. It keeps what came
// through.
type notes struct {
	mu   sync.Mutex
	seen []string
}

func (n *notes) take(ctx context.Context, message *wrapperspb.StringValue) {
	token, _ := fence.FromContext(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, fmt.Sprintf("%v %s", token, message.GetValue()))
}

func (n *notes) unary(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := dec(in); err != nil {
		return nil, err
	}
	stream := grpc.ServerTransportStreamFromContext(ctx)
	return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: stream.Method()}, func(ctx context.Context, req any) (any, error) {
		n.take(ctx, req.(*wrapperspb.StringValue))
		return req, nil
	})
}

func (n *notes) stream(_ any, stream grpc.ServerStream) error {
	for {
		in := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(in); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n.take(stream.Context(), in)
		if err := stream.SendMsg(in); err != nil {
			return err
		}
	}
}

// served starts the service behind a guard; resources are messages up to the first colon.
func served(t *testing.T, g fence.Guard, client ...grpc.DialOption) (*notes, *grpc.ClientConn) {
	t.Helper()
	n := new(notes)
	resource := func(_ context.Context, method string, message any) (string, bool) {
		name, _, _ := strings.Cut(message.(*wrapperspb.StringValue).GetValue(), ":")
		return name, method != "/notes/Read"
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(UnaryServer(g, resource)), grpc.StreamInterceptor(StreamServer(g, resource)))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "notes", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Put", Handler: n.unary}, {MethodName: "Read", Handler: n.unary}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", Handler: n.stream, ClientStreams: true, ServerStreams: true}},
	}, n)
	listener := bufconn.Listen(1 << 16)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(listener); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("passthrough:///notes", append(client,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		wg.Wait()
	})
	return n, conn
}

func interceptors() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithUnaryInterceptor(UnaryClient()), grpc.WithStreamInterceptor(StreamClient())}
}

func call(ctx context.Context, conn *grpc.ClientConn, method, message string) error {
	return conn.Invoke(ctx, "/notes/"+method, wrapperspb.String(message), new(wrapperspb.StringValue))
}

func wantStale(t *testing.T, err error, want fence.StaleError) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || *stale != want || status.Code(err) != codes.Aborted {
		t.Errorf("%v, code %v", err, status.Code(err))
	}
}

func TestCallsComeThroughUnderTheHoldersTokenOnly(t *testing.T) {
	t.Parallel()
	n, conn := served(t, fence.NewMemory(), interceptors()...)
	put := func(token fence.Token, message string) error {
		return call(fence.NewContext(t.Context(), token), conn, "Put", message)
	}
	if err := errors.Join(put(5, "a:1"), put(5, "a:2"), put(fence.TokenMax, "b:3"), put(9, "a:4")); err != nil {
		t.Error(err)
	}
	wantStale(t, put(8, "a:5"), fence.StaleError{Resource: "a", Token: 8, Highest: 9})
	if err := call(t.Context(), conn, "Put", "a:6"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without a token: %v", err)
	}
	if err := call(t.Context(), conn, "Read", "a:7"); err != nil {
		t.Errorf("unguarded: %v", err)
	}
	for _, token := range []fence.Token{0, fence.TokenMax + 1} {
		if err := put(token, "a:8"); status.Code(err) != codes.InvalidArgument {
			t.Errorf("token %d: %v", uint64(token), err)
		}
	}
	if err := put(5, ":9"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no resource: %v", err)
	}
	if got := strings.Join(n.seen, ", "); got != "5 a:1, 5 a:2, 9007199254740991 b:3, 9 a:4, 0 a:7" {
		t.Errorf("came through: %s", got)
	}
}

func TestBadMetadataAndAFailedGuardAreToldApart(t *testing.T) {
	t.Parallel()
	n, conn := served(t, fence.NewMemory())
	for _, values := range [][]string{{"1", "2"}, {"x"}, {"0"}, {"-1"}, {"9007199254740992"}, {""}} {
		md := metadata.MD{Key: values}
		if err := call(metadata.NewOutgoingContext(t.Context(), md), conn, "Put", "a"); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", values, err)
		}
	}
	if len(n.seen) > 0 {
		t.Errorf("came through: %q", n.seen)
	}
	for _, g := range []fence.Guard{nil, broken{}} {
		_, conn := served(t, g, interceptors()...)
		err := call(fence.NewContext(t.Context(), 5), conn, "Put", "a")
		if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "EOF") {
			t.Errorf("guard %v: %v", g, err)
		}
	}
}

// broken is a guard whose storage has failed.
type broken struct{}

func (broken) Check(context.Context, string, fence.Token) error     { return io.ErrUnexpectedEOF }
func (broken) CheckOnce(context.Context, string, fence.Token) error { return io.ErrUnexpectedEOF }

// A stream may live longer than the lease that it was opened under.
func TestAStreamEndsWhenAnotherHoldsTheLock(t *testing.T) {
	t.Parallel()
	n, conn := served(t, fence.NewMemory(), interceptors()...)
	ctx := metadata.AppendToOutgoingContext(fence.NewContext(t.Context(), 5), Key, "99") // the context's goes before
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/notes/Stream")
	if err != nil {
		t.Fatal(err)
	}
	send := func(message string) error {
		if err := stream.SendMsg(wrapperspb.String(message)); err != nil {
			return err
		}
		return stream.RecvMsg(new(wrapperspb.StringValue))
	}
	if err := errors.Join(send("a:1"), send("a:2")); err != nil {
		t.Error(err)
	}
	if err := call(fence.NewContext(t.Context(), 6), conn, "Put", "a:3"); err != nil {
		t.Error(err)
	}
	wantStale(t, send("a:4"), fence.StaleError{Resource: "a", Token: 5, Highest: 6})
	if got := strings.Join(n.seen, ", "); got != "5 a:1, 5 a:2, 6 a:3" {
		t.Errorf("came through: %s", got)
	}
}

func TestErrorsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, io.EOF, status.Error(codes.Aborted, "by the service"), status.Error(codes.Internal, "x")} {
		if got := read(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	if Error(nil) != nil {
		t.Error("no error became one")
	}
	if err := Error(&fence.StaleError{Resource: "\xff", Token: 1, Highest: 2}); status.Code(err) != codes.Aborted {
		t.Errorf("a resource that is no UTF-8: %v", err)
	}
}
