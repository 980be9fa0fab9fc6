// Package grpcfence guards gRPC services with the fencing tokens of Holdfast locks. The client's
// interceptors send the token of the call's context (fence.NewContext) in the metadata; the
// server's ask a fence.Guard before they let a message through, and put the token into the context
// of the handler.
//
// They look before the handler runs. Two calls that were let in, an older and a newer one, may
// still overtake each other in it; where that matters, the handler asks its storage once more as it
// writes, with the token of its context, and answers with Error.
package grpcfence
