package fence

import (
	"context"
	"errors"
	"fmt"
)

// EvalFunc runs a Lua script on a Redis server, like EVAL, and returns its result: strings as
// string or []byte, numbers as int64, lists as []any. It may send the script's hash instead
// (EVALSHA). With go-redis it is
//
//	func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
//	}
type EvalFunc func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// Redis is a Guard whose marks are keys of a Redis server or cluster: the prefix followed by the
// resource. Guarded writes belong into the script of the check: Eval. Check and CheckOnce are for
// other writes; another holder may come between the check and the write.
//
// A mark lasts as long as the server keeps it. A server that loses its last second in a crash, or a
// replica that takes over without the mark, loses marks and data alike. Marks never expire; a
// server that evicts such keys must have none of them. Use NewRedis.
type Redis struct {
	observer
	eval   EvalFunc
	prefix string
}

var _ Guard = (*Redis)(nil)

// NewRedis returns the guard of the keys with a prefix, perhaps "fence:". Nothing is sent.
func NewRedis(eval EvalFunc, prefix string) *Redis { return &Redis{eval: eval, prefix: prefix} }

// admitScript begins every script. KEYS[1] is the mark; ARGV begins with the token and the highest
// mark that admits it. A guard writes marks in decimal digits within range only. Numbers of Lua are
// exact up to 2^53, but print with 14 digits: the script writes the text of the token.
const admitScript = `local mark = redis.call('GET', KEYS[1])
if mark then
  local n = tonumber(mark)
  if #mark > 16 or string.find(mark, '[^0-9]') or not n or n > 9007199254740991 then return {'damaged', mark} end
  if n > tonumber(ARGV[2]) then return {'stale', mark} end
end
if mark ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
`

// Check admits t unless a higher token was seen.
func (r *Redis) Check(ctx context.Context, resource string, t Token) error {
	_, err := r.run(ctx, resource, t, false, "return {'admitted'}", nil, nil)
	return err
}

// CheckOnce admits t only if neither it nor a higher token was seen.
func (r *Redis) CheckOnce(ctx context.Context, resource string, t Token) error {
	_, err := r.run(ctx, resource, t, true, "return {'admitted'}", nil, nil)
	return err
}

// Eval is Check and the user's own script in one step, and returns the script's result. A refused
// token does not run it. An error that the script raises or returns (redis.error_reply) is Eval's,
// too. KEYS and ARGV in it are keys and args. In a cluster keys and the mark must share a slot: give
// them the same {tag}, the mark by its resource. Redis rolls nothing back: a failing script leaves its
// writes, and the mark.
func (r *Redis) Eval(ctx context.Context, resource string, t Token, script string, keys []string, args ...any) (any, error) {
	return r.run(ctx, resource, t, false, wrapped(script), keys, args)
}

// EvalOnce is Eval that begins with CheckOnce.
func (r *Redis) EvalOnce(ctx context.Context, resource string, t Token, script string, keys []string, args ...any) (any, error) {
	return r.run(ctx, resource, t, true, wrapped(script), keys, args)
}

// wrapped makes a function of a user's script, with the KEYS and ARGV after the guard's. An error that it
// raises is a value: the token was admitted all the same. It is a text or, from Redis 7 on, a table like
// that of redis.error_reply.
func wrapped(script string) string {
	return "local user_keys, user_args = {}, {}\n" +
		"for i = 2, #KEYS do user_keys[i - 1] = KEYS[i] end\n" +
		"for i = 3, #ARGV do user_args[i - 2] = ARGV[i] end\n" +
		"local ok, value = pcall(function(KEYS, ARGV)\n" + script + "\nend, user_keys, user_args)\n" +
		"if not ok and type(value) == 'table' then value = value.err or tostring(value) end\n" +
		"if not ok then value = redis.error_reply(tostring(value)) end\n" +
		"return {'admitted', value}"
}

func (r *Redis) run(ctx context.Context, resource string, t Token, once bool, body string, keys []string, args []any) (any, error) {
	if r == nil {
		return nil, errNoEval
	}
	value, err := r.send(ctx, resource, t, once, body, keys, args)
	if err := r.note(ctx, resource, t, err); err != nil {
		return nil, err
	}
	if failed, ok := value.(error); ok { // clients hand over an error within a list as one of its elements
		return nil, fmt.Errorf("holdfast: script after the check in redis: %w", failed)
	}
	return value, nil
}

var errNoEval = fmt.Errorf("%w: eval is nil", ErrInvalid)

func (r *Redis) send(ctx context.Context, resource string, t Token, once bool, body string, keys []string, args []any) (any, error) {
	if err := validate(ctx, resource, t); err != nil {
		return nil, err
	}
	if r.eval == nil {
		return nil, errNoEval
	}
	keys = append([]string{r.prefix + resource}, keys...)
	args = append([]any{t.String(), bound(t, once).String()}, args...)
	reply, err := r.eval(ctx, admitScript+body, keys, args...)
	if err != nil {
		return nil, fmt.Errorf("holdfast: fence in redis: %w", err)
	}
	return r.read(reply, resource, t)
}

// read reads the script's answer: a verdict and a value.
func (r *Redis) read(reply any, resource string, t Token) (any, error) {
	list, _ := reply.([]any)
	if len(list) == 0 {
		return nil, fmt.Errorf("holdfast: fence in redis: the script answered %T, not a list", reply)
	}
	var value any
	if len(list) > 1 {
		value = list[1]
	}
	switch verdict := text(list[0]); verdict {
	case "admitted":
		return value, nil
	case "stale":
		stale := &StaleError{Resource: resource, Token: t}
		if err := stale.Highest.UnmarshalText([]byte(text(value))); err != nil {
			return nil, err
		}
		return nil, stale
	case "damaged":
		return nil, fmt.Errorf("%w: mark %.40q of %q in redis", ErrDamaged, text(value), r.prefix+resource)
	default:
		return nil, fmt.Errorf("holdfast: fence in redis: the script answered %.40q", verdict)
	}
}

// text is a string of the server, which clients return as string or as bytes.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// Highest is the mark of a resource, zero if it has none.
func (r *Redis) Highest(ctx context.Context, resource string) (Token, error) {
	if err := validate(ctx, resource, TokenMax); err != nil {
		return 0, err
	}
	if r == nil || r.eval == nil {
		return 0, errNoEval
	}
	reply, err := r.eval(ctx, "return {redis.call('GET', KEYS[1]) or '0'}", []string{r.prefix + resource})
	if err != nil {
		return 0, fmt.Errorf("holdfast: fence in redis: %w", err)
	}
	list, _ := reply.([]any)
	if len(list) != 1 {
		return 0, errors.New("holdfast: fence in redis: the script did not answer a list of one")
	}
	var mark Token
	if err := mark.UnmarshalText([]byte(text(list[0]))); err != nil {
		return 0, fmt.Errorf("%w: of %q in redis: %w", ErrDamaged, r.prefix+resource, err)
	}
	return mark, nil
}
