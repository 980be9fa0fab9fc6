package grpcfence

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
)

// UnaryClient sends the token of the call's context; calls without one go as they are. The error of
// a call that was refused for its token is a *fence.StaleError (errors.As) and a status
// (status.FromError).
func UnaryClient() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, err := outgoing(ctx)
		if err != nil {
			return err
		}
		return read(invoker(ctx, method, req, reply, cc, opts...))
	}
}

// StreamClient does for streams what UnaryClient does for single calls. The token is that of the
// context with which the stream is opened, for all its messages: a new lease needs a new stream.
func StreamClient() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		ctx, err := outgoing(ctx)
		if err != nil {
			return nil, err
		}
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, read(err)
		}
		return &clientStream{stream}, nil
	}
}

type clientStream struct{ grpc.ClientStream }

func (s *clientStream) RecvMsg(message any) error { return read(s.ClientStream.RecvMsg(message)) }

// outgoing puts the token of ctx into the metadata, in the place of one that is there.
func outgoing(ctx context.Context) (context.Context, error) {
	t, ok := fence.FromContext(ctx)
	if !ok {
		return ctx, nil
	}
	if t == 0 || t > fence.TokenMax {
		return nil, status.Errorf(codes.InvalidArgument, "%v: %d", fence.ErrInvalidToken, uint64(t))
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy() // nil becomes empty
	md.Set(Key, t.String())
	return metadata.NewOutgoingContext(ctx, md), nil
}
