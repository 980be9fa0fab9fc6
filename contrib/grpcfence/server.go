package grpcfence

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
)

// Resource names the resource that a message of a call is for; false leaves it unguarded, as reads
// and health checks are. The method is the full one, "/package.Service/Method".
type Resource func(ctx context.Context, method string, message any) (name string, guarded bool)

// UnaryServer refuses guarded calls that g does not admit, with the status of Error. A call without
// a token is FailedPrecondition, one with several or what is no token InvalidArgument, and
// so is a guarded call for the resource "".
func UnaryServer(g fence.Guard, resource Resource) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := check(ctx, g, resource, info.FullMethod, req); err != nil {
			return nil, err
		}
		return handler(withToken(ctx), req)
	}
}

// StreamServer asks g for each guarded message that the client sends, so that a stream which its
// holder opened in good time ends when the holder is no longer. The handler's Recv answers the
// status.
func StreamServer(g fence.Guard, resource Resource) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, &guardedStream{stream, withToken(stream.Context()), g, resource, info.FullMethod})
	}
}

type guardedStream struct {
	grpc.ServerStream
	ctx      context.Context
	guard    fence.Guard
	resource Resource
	method   string
}

func (s *guardedStream) Context() context.Context { return s.ctx }

func (s *guardedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	return check(s.ctx, s.guard, s.resource, s.method, message)
}

// check is the decision about one message, as a status.
func check(ctx context.Context, g fence.Guard, resource Resource, method string, message any) error {
	if g == nil || resource == nil {
		return status.Error(codes.Unavailable, "the guard is not set up")
	}
	name, guarded := resource(ctx, method, message)
	if !guarded {
		return nil
	}
	t, err := token(ctx)
	if err != nil {
		return err
	}
	if name == "" {
		return status.Error(codes.InvalidArgument, "the call names no resource")
	}
	return Error(g.Check(ctx, name, t))
}

// token is the one token of a call's metadata.
func token(ctx context.Context) (t fence.Token, err error) {
	values := metadata.ValueFromIncomingContext(ctx, Key)
	if len(values) == 0 {
		return 0, status.Errorf(codes.FailedPrecondition, "the call has no %s in its metadata", Key)
	}
	if len(values) > 1 || t.UnmarshalText([]byte(values[0])) != nil || t == 0 {
		return 0, status.Errorf(codes.InvalidArgument, "%s must be one number from 1 to %d", Key, fence.TokenMax)
	}
	return t, nil
}

// withToken gives the handler the call's token, if it has a good one.
func withToken(ctx context.Context) context.Context {
	if t, err := token(ctx); err == nil {
		return fence.NewContext(ctx, t)
	}
	return ctx
}
