package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"sync"
)

// ErrEnded says that a process has ended without an answer.
var ErrEnded = errors.New("the process has ended")

type message[T any] struct {
	ID   int
	Body T
}

// Client is a process that answers requests, in any order: it runs Serve with the same types.
type Client[Request, Answer any] struct {
	*Process
	mu      sync.Mutex
	last    int
	waiting map[int]chan Answer
}

// StartClient is Start for a process that answers requests on its standard output.
func StartClient[Request, Answer any](cmd *exec.Cmd) (c *Client[Request, Answer], err error) {
	c = &Client[Request, Answer]{waiting: make(map[int]chan Answer)}
	cmd.Stdout = Lines(c.heard)
	c.Process, err = Start(cmd)
	return c, err
}

func (c *Client[Request, Answer]) heard(line []byte) {
	var m message[Answer]
	if json.Unmarshal(line, &m) != nil {
		return // something else on the standard output
	}
	c.mu.Lock()
	answered := c.waiting[m.ID]
	delete(c.waiting, m.ID)
	c.mu.Unlock()
	if answered != nil {
		answered <- m.Body
	}
}

// Begin sends a request. The answer comes on the channel, which has room for it; Await waits for it
// or for the process's end.
func (c *Client[Request, Answer]) Begin(r Request) <-chan Answer {
	answered := make(chan Answer, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = answered
	c.mu.Unlock()
	line, err := json.Marshal(message[Request]{id, r})
	if err != nil {
		panic(err) // a type that is no JSON
	}
	_ = c.Send(string(line)) // to one that has ended, as Await tells
	return answered
}

// Await waits for an answer. The error is ErrEnded or ctx's.
func (c *Client[Request, Answer]) Await(ctx context.Context, answered <-chan Answer) (a Answer, err error) {
	select {
	case a = <-answered:
		return a, nil
	case <-ctx.Done():
		return a, ctx.Err()
	case <-c.Done():
	}
	select {
	case a = <-answered: // its last words
		return a, nil
	default:
		return a, ErrEnded
	}
}

// Serve answers the requests that come in, all at once, until the input ends. It does not wait for
// what is under way then, as the process ends.
func Serve[Request, Answer any](in io.Reader, out io.Writer, answer func(Request) Answer) error {
	var mu sync.Mutex
	for requests := json.NewDecoder(in); ; {
		var m message[Request]
		if err := requests.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		go func() {
			a := message[Answer]{m.ID, answer(m.Body)}
			mu.Lock()
			defer mu.Unlock()
			_ = json.NewEncoder(out).Encode(a) // without a parent the input ends, too
		}()
	}
}
