package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/term"
)

// sure asks before something is destroyed. Without a terminal --yes is the only answer.
func (a *app) sure(ctx context.Context, question string) error {
	if a.yes {
		return nil
	}
	question = clean(question)
	if !term.IsTerminal(int(a.in.Fd())) {
		return &exit{codeUsage, errors.New("not done: " + question), "Nobody can be asked, as standard input is no terminal: say --yes if you are sure."}
	}
	fmt.Fprintf(a.err, "%s Go on? [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // ends with the process at the latest: nothing else ends a read of a terminal
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return &exit{codeFailed, errors.New("not done"), ""}
}
