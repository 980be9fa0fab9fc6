package grpcfence

import (
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
)

// Key is the metadata key of the token, in decimal digits.
const Key = "fencing-token"

// The ErrorInfo of a refusal has this domain, and for a stale token this reason.
const (
	Domain      = "holdfast-go.github.com"
	ReasonStale = "STALE_FENCING_TOKEN"
)

// Error is a guard's error as a gRPC status: Aborted for a stale token (the caller begins anew with
// a new lease), InvalidArgument for what is no token or resource, Unavailable for a guard that has
// failed, whose reason the client is not told. nil stays nil.
func Error(err error) error {
	var stale *fence.StaleError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stale):
		s, detailed := status.New(codes.Aborted, stale.Error()).WithDetails(&errdetails.ErrorInfo{
			Reason: ReasonStale, Domain: Domain,
			Metadata: map[string]string{"resource": stale.Resource, "token": stale.Token.String(), "highest": stale.Highest.String()},
		})
		if detailed != nil { // a resource that is no UTF-8 does not fit
			return status.Error(codes.Aborted, stale.Error())
		}
		return s.Err()
	case errors.Is(err, fence.ErrInvalid), errors.Is(err, fence.ErrInvalidToken):
		return status.Error(codes.InvalidArgument, "the call names no resource or token that a guard takes")
	default:
		return status.Error(codes.Unavailable, "the guard could not check the fencing token")
	}
}

// refused is an error of a call that was refused for its token: errors.As finds the
// *fence.StaleError, status.FromError the status.
type refused struct {
	*fence.StaleError
	status *status.Status
}

func (r *refused) Unwrap() error              { return r.StaleError }
func (r *refused) GRPCStatus() *status.Status { return r.status }

// read finds a refusal in an error of a call; others stay as they are.
func read(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || s.Code() != codes.Aborted {
		return err
	}
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain || info.GetReason() != ReasonStale {
			continue
		}
		m := info.GetMetadata()
		stale := &fence.StaleError{Resource: m["resource"]}
		if stale.Token.UnmarshalText([]byte(m["token"])) == nil && stale.Highest.UnmarshalText([]byte(m["highest"])) == nil {
			return &refused{stale, s}
		}
	}
	return err
}
