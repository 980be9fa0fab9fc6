package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Header is the HTTP header that carries a token, in decimal digits.
const Header = "Fencing-Token"

// The problem types (RFC 9457) of Handler's answers.
const (
	ProblemStale   = problemBase + "stale"   // 412: another holder has or had the lock since
	ProblemMissing = problemBase + "missing" // 428: the request has no token
	ProblemInvalid = problemBase + "invalid" // 400: several tokens, an invalid token, or no resource
	ProblemFailed  = problemBase + "failed"  // 503: the guard failed

	problemBase = "https://github.com/holdfast-go/holdfast/blob/main/docs/fencing.md#problem-"
)

// Problem is the body of a refusal, application/problem+json.
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Resource string `json:"resource,omitempty"`
	Token    Token  `json:"token,omitempty"`   // the refused one
	Highest  Token  `json:"highest,omitempty"` // of a stale token: the highest that was seen
}

// Handler passes requests on to next if g admits their token for their resource; next finds the
// token with FromContext. The other answers are a Problem: 428 without a token, 400 with several
// tokens, an invalid one, or "" for the resource, 412 with a stale one, 503 if g fails or the request
// ends first. A nil resource is the path of the URL.
//
// Handler trusts the token of a client: authenticate and authorize requests before it, or any
// client can shut out the holder. Pass only existing resources on, since g keeps a mark for each
// name forever. Plausible bounds the harm of a false token.
//
// Handler checks before next, so an older and a newer admitted request may still overtake each
// other inside next. Where that matters, next checks again in one step with its write, by the
// guard's Do with the token of the context, and answers an error by Refuse. Also wrap reads that
// writes depend on: the first request of a new holder then shuts out the former.
func Handler(g Guard, resource func(*http.Request) string, next http.Handler) http.Handler {
	if resource == nil {
		resource = func(r *http.Request) string { return r.URL.Path }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g == nil || next == nil {
			refuse(w, Problem{Type: ProblemFailed, Status: http.StatusServiceUnavailable, Detail: "the guard is not set up"})
			return
		}
		t, p := tokenOf(r)
		if p != nil {
			refuse(w, *p)
			return
		}
		name := resource(r)
		if name == "" {
			refuse(w, Problem{Type: ProblemInvalid, Status: http.StatusBadRequest, Detail: "the request names no resource"})
			return
		}
		if err := g.Check(r.Context(), name, t); err != nil {
			Refuse(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), t)))
	})
}

// tokenOf is the one token of a request, or the Problem of its absence.
func tokenOf(r *http.Request) (t Token, p *Problem) {
	values := r.Header.Values(Header)
	if len(values) == 0 {
		return 0, &Problem{Type: ProblemMissing, Status: http.StatusPreconditionRequired, Detail: "the request has no " + Header + " header"}
	}
	if len(values) > 1 || t.UnmarshalText([]byte(values[0])) != nil || t == 0 {
		return 0, &Problem{Type: ProblemInvalid, Status: http.StatusBadRequest,
			Detail: fmt.Sprintf("%s must be one number from 1 to %d", Header, TokenMax)}
	}
	return t, nil
}

// Refuse answers a request with a guard's error, as Handler does, for handlers that check again as
// they write. err is not nil. The answer has no inner errors of a guard; Logged shows them.
func Refuse(w http.ResponseWriter, err error) {
	var stale *StaleError
	switch {
	case errors.As(err, &stale):
		refuse(w, Problem{Type: ProblemStale, Status: http.StatusPreconditionFailed, Detail: "a higher fencing token was seen",
			Resource: stale.Resource, Token: stale.Token, Highest: stale.Highest})
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrInvalidToken):
		refuse(w, Problem{Type: ProblemInvalid, Status: http.StatusBadRequest, Detail: "the resource or the token of the request is invalid"})
	default:
		refuse(w, Problem{Type: ProblemFailed, Status: http.StatusServiceUnavailable,
			Detail: "the guard could not check the token"})
	}
}

func refuse(w http.ResponseWriter, p Problem) {
	p.Title = http.StatusText(p.Status)
	body, err := json.Marshal(p)
	if err != nil { // a Problem has no value that JSON lacks
		http.Error(w, p.Detail, p.Status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that does not receive it has gone
}
