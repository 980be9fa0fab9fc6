package fsm

import (
	"fmt"
	"reflect"
)

// queryVersion is the first byte of every question and answer.
const queryVersion = 1

// query is the second byte of every question, and of its answers. Numbers are never reused.
type query byte

const (
	queryGroup query = iota + 1
	queryName
	queryLocks
	queryClaims
	queryKeys
	querySessions
	queryQuotas
)

func (QueryGroup) query() query    { return queryGroup }
func (QueryName) query() query     { return queryName }
func (QueryLocks) query() query    { return queryLocks }
func (QueryClaims) query() query   { return queryClaims }
func (GroupState) query() query    { return queryGroup }
func (NameState) query() query     { return queryName }
func (LocksPage) query() query     { return queryLocks }
func (ClaimsState) query() query   { return queryClaims }
func (QueryKeys) query() query     { return queryKeys }
func (KeysPage) query() query      { return queryKeys }
func (QuerySessions) query() query { return querySessions }
func (SessionsPage) query() query  { return querySessions }
func (QueryQuotas) query() query   { return queryQuotas }
func (QuotasState) query() query   { return queryQuotas }

// encodable is a question or an answer.
type encodable interface{ query() query }

// EncodeQuestion is the question as it travels.
func EncodeQuestion(q Question) []byte { return encode(q) }

// EncodeAnswer is the answer as it travels.
func EncodeAnswer(a Answer) []byte { return encode(a) }

func encode(v encodable) []byte { return appendFields([]byte{queryVersion, byte(v.query())}, v) }

// DecodeQuestion reads a question. The error wraps ErrUnsupported for a version or kind that this
// package does not know, else ErrMalformed. The question shares no memory with b.
func DecodeQuestion(b []byte) (Question, error) {
	return decodeOne[Question](b, "question", []fielded{
		queryGroup: (*QueryGroup)(nil), queryName: (*QueryName)(nil), queryLocks: (*QueryLocks)(nil), queryClaims: (*QueryClaims)(nil),
		queryKeys: (*QueryKeys)(nil), querySessions: (*QuerySessions)(nil), queryQuotas: (*QueryQuotas)(nil),
	})
}

// DecodeAnswer reads an answer, as DecodeQuestion reads a question.
func DecodeAnswer(b []byte) (Answer, error) {
	return decodeOne[Answer](b, "answer", []fielded{
		queryGroup: (*GroupState)(nil), queryName: (*NameState)(nil), queryLocks: (*LocksPage)(nil), queryClaims: (*ClaimsState)(nil),
		queryKeys: (*KeysPage)(nil), querySessions: (*SessionsPage)(nil), queryQuotas: (*QuotasState)(nil),
	})
}

// decodeOne reads a message of the kind that its second byte names.
func decodeOne[T encodable](b []byte, what string, kinds []fielded) (none T, err error) {
	switch {
	case len(b) < 2:
		return none, fmt.Errorf("holdfast: question or answer of %d bytes: %w", len(b), ErrMalformed)
	case b[0] != queryVersion:
		return none, fmt.Errorf("holdfast: question or answer of version %d: %w", b[0], ErrUnsupported)
	case int(b[1]) >= len(kinds) || kinds[b[1]] == nil:
		return none, fmt.Errorf("holdfast: %s %d: %w", what, b[1], ErrUnsupported)
	}
	v := reflect.New(reflect.TypeOf(kinds[b[1]]).Elem())
	if err := read(b[2:], v.Interface().(fielded)); err != nil {
		return none, fmt.Errorf("holdfast: %v: %w", v.Type().Elem(), err)
	}
	return v.Elem().Interface().(T), nil
}
