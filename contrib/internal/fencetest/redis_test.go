//go:build unix

package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/servers/serverstest"
)

// connect is a client of its own connections, and the guard that it makes.
func connect(t *testing.T, s *servers.Server, prefix string) (*redis.Client, *fence.Redis) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: 8, PoolTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client, fence.NewRedis(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
	}, prefix)
}

func TestRedis(t *testing.T) {
	t.Parallel()
	s := serverstest.Start(t, servers.Redis)
	t.Run("tests", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *servers.Server){
			"TheGuardKeepsItsContract": func(t *testing.T, s *servers.Server) {
				_, g := connect(t, s, "contract:")
				keepsContract(t, g)
			},
			"AForeignMarkAdmitsNothing":          foreignKeys,
			"AScriptRunsOnlyUnderAGoodToken":     guardedScripts,
			"AScriptThatFailsWasAdmitted":        failedScripts,
			"SixtyFourWritersWithRandomTokens":   redisRace,
			"ATokenIsAdmittedOnceAmongSixtyFour": redisOnce,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, s)
			})
		}
	})
	t.Run("TheServerIsKilled", func(t *testing.T) { killRedis(t, s) })
}

func foreignKeys(t *testing.T, s *servers.Server) {
	client, g := connect(t, s, "foreign:")
	ctx := t.Context()
	for _, mark := range []string{"-1", "", "abc", "1e3", "0x10", " 5", "5 ", "5.0", "9007199254740992", "99999999999999999999", "inf", "nan"} {
		if err := client.Set(ctx, "foreign:r", mark, 0).Err(); err != nil {
			t.Fatal(err)
		}
		for _, token := range []fence.Token{1, fence.TokenMax} {
			for _, err := range []error{g.Check(ctx, "r", token), g.CheckOnce(ctx, "r", token)} {
				if !errors.Is(err, fence.ErrDamaged) || errors.Is(err, fence.ErrStale) {
					t.Errorf("mark %q, token %v: %v", mark, token, err)
				}
			}
		}
		if _, err := g.Highest(ctx, "r"); !errors.Is(err, fence.ErrDamaged) {
			t.Errorf("mark %q: read back with %v", mark, err)
		}
		if still, err := client.Get(ctx, "foreign:r").Result(); err != nil || still != mark {
			t.Errorf("mark %q is now %q (%v)", mark, still, err)
		}
	}
	if err := client.LPush(ctx, "foreign:list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(ctx, "list", 5); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a list in the place of the mark: %v", err)
	}
	if err := errors.Join(client.Set(ctx, "foreign:zero", 0, 0).Err(), g.CheckOnce(ctx, "zero", 1)); err != nil {
		t.Errorf("mark zero: %v", err)
	}
}

func guardedScripts(t *testing.T, s *servers.Server) {
	client, g := connect(t, s, "scripts:")
	ctx := t.Context()
	const set = "redis.call('SET', KEYS[1], ARGV[1]); return {KEYS[1], #KEYS, #ARGV}"
	if got, err := g.Eval(ctx, "r", 9, set, []string{"value"}, "by nine", "x"); err != nil || fmt.Sprint(got) != "[value 1 2]" {
		t.Errorf("%v, %v", got, err)
	}
	_, err := g.Eval(ctx, "r", 8, set, []string{"value"}, "by eight")
	wantStale(t, err, "r", 8, 9)
	if got, err := client.Get(ctx, "value").Result(); err != nil || got != "by nine" {
		t.Errorf("the value is %q (%v)", got, err)
	}
	if got, err := g.Eval(ctx, "r", 9, "return redis.call('GET', 'scripts:none')", nil); err != nil || got != nil {
		t.Errorf("nothing as the answer: %v, %v", got, err)
	}
	if got, err := g.EvalOnce(ctx, "once", 9, set, []string{"value"}, "once"); err != nil || fmt.Sprint(got) != "[value 1 1]" {
		t.Errorf("%v, %v", got, err)
	}
	_, err = g.EvalOnce(ctx, "once", 9, set, []string{"value"}, "twice")
	wantStale(t, err, "once", 9, 9)
	if got, err := client.Get(ctx, "value").Result(); err != nil || got != "once" {
		t.Errorf("the value is %q (%v)", got, err)
	}
	if _, err := g.Eval(ctx, "r", 10, "this is not Lua", nil); err == nil || errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if mark, err := g.Highest(ctx, "r"); err != nil || mark != 9 {
		t.Errorf("a script that does not run leaves the mark %v, %v", mark, err)
	}
}

// EVAL as a whole was an error where the user's script had failed, and the observer took the token for refused.
func failedScripts(t *testing.T, s *servers.Server) {
	client, g := connect(t, s, "failed:")
	ctx := t.Context()
	if err := client.Set(ctx, "text", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var told []fence.Checked
	g.Observe(func(_ context.Context, c fence.Checked) { told = append(told, c) })
	token := fence.Token(0)
	for script, want := range map[string]string{
		"error('broken')":                         "broken",
		"error({err = 'MINE of a table'})":        "MINE of a table",
		"error({})":                               "table:",
		"error()":                                 "nil",
		"return redis.call('LPUSH', KEYS[1], 1)":  "WRONGTYPE",
		"return redis.pcall('LPUSH', KEYS[1], 1)": "WRONGTYPE",
		"return redis.error_reply('MINE alone')":  "MINE alone",
		"return none.at_all":                      "none",
	} {
		token++
		_, err := g.Eval(ctx, "r", token, script, []string{"text"})
		var answer redis.Error
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &answer) {
			t.Errorf("%s: %v", script, err)
		}
		if last := told[len(told)-1]; len(told) != int(token) || last.Err != nil || last.Token != token {
			t.Errorf("%s: the check was told as %+v", script, last)
		}
		if mark, err := g.Highest(ctx, "r"); err != nil || mark != token {
			t.Errorf("%s: the mark is %v, %v", script, mark, err)
		}
	}
}

func redisRace(t *testing.T, s *servers.Server) {
	const writers, each = 64, 10
	var guards []*fence.Redis
	var client *redis.Client
	for range 4 {
		c, g := connect(t, s, "race:")
		client, guards = c, append(guards, g)
	}
	var mu sync.Mutex
	accepted, refused := make(map[string]bool), 0
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				token := 1 + rand.N(fence.Token(60))
				id := fmt.Sprintf("%d:%d.%d", token, w, i)
				_, err := guards[w%len(guards)].Eval(t.Context(), "r", token, "return redis.call('RPUSH', KEYS[1], ARGV[1])", []string{"race"}, id)
				mu.Lock()
				switch {
				case err == nil:
					accepted[id] = true
				case errors.Is(err, fence.ErrStale):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	list, err := client.LRange(t.Context(), "race", 0, -1).Result()
	if err != nil || len(list) != len(accepted) || refused == 0 {
		t.Errorf("%d written, %d accepted, %d refused (%v)", len(list), len(accepted), refused, err)
	}
	neverFall(t, list)
	for _, id := range list {
		if !accepted[id] {
			t.Errorf("%s is there, but was not accepted", id)
		}
	}
}

// neverFall looks at the tokens before the colons.
func neverFall(t *testing.T, list []string) {
	t.Helper()
	var last fence.Token
	for _, id := range list {
		number, _, _ := strings.Cut(id, ":")
		var token fence.Token
		if err := token.UnmarshalText([]byte(number)); err != nil || token < last {
			t.Errorf("token %s after %v (%v)", number, last, err)
		}
		last = token
	}
}

func redisOnce(t *testing.T, s *servers.Server) {
	_, g := connect(t, s, "once:")
	var mu sync.Mutex
	admitted := 0
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			err := g.CheckOnce(t.Context(), "r", fence.TokenMax)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				admitted++
			} else if !errors.Is(err, fence.ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if admitted != 1 {
		t.Errorf("admitted %d times", admitted)
	}
}

// killRedis: a server that syncs each write forgets none; it runs alone.
func killRedis(t *testing.T, s *servers.Server) {
	client, g := connect(t, s, "crash:")
	var token fence.Token
	var told []string
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var wg sync.WaitGroup
		enough := make(chan struct{}, 1<<16)
		for range 8 {
			wg.Go(func() {
				for {
					mu.Lock()
					token++
					mine := token
					mu.Unlock()
					_, err := g.Eval(ctx, "r", mine, "return redis.call('RPUSH', KEYS[1], ARGV[1])", []string{"crash"}, mine.String())
					if err != nil && !errors.Is(err, fence.ErrStale) {
						return // the server has gone
					}
					if err == nil {
						mu.Lock()
						told = append(told, mine.String())
						mu.Unlock()
						enough <- struct{}{}
					}
				}
			})
		}
		for range 30 {
			select {
			case <-enough:
			case <-time.After(30 * time.Second):
				t.Fatal("the writers are stuck")
			}
		}
		s.Kill()
		cancel()
		wg.Wait()
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.LRange(t.Context(), "crash", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	neverFall(t, list)
	there := make(map[string]bool)
	for _, id := range list {
		there[id] = true
	}
	for _, id := range told {
		if !there[id] {
			t.Errorf("token %s was written, and is not there", id)
		}
	}
	if mark, err := g.Highest(t.Context(), "r"); err != nil || mark.String() != list[len(list)-1] {
		t.Errorf("mark %v (%v) after %s", mark, err, list[len(list)-1])
	}
}
