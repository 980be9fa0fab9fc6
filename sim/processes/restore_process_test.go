//go:build unix

package processes_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestTokensRiseAfterTheDirectoriesOfAllProcessesWerePutBack(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " processes"), func(t *testing.T) {
			t.Parallel()
			p := procs(t, nodes)
			var highest holdfast.Token
			grants := func(count int) {
				for i := range count {
					a := p[i%nodes].must(order{Op: "acquire", Name: "risen", TTL: time.Minute})
					if a.Token <= highest {
						t.Fatalf("token %d was granted after %d", a.Token, highest)
					}
					highest = a.Token
					p[i%nodes].must(order{Op: "release", Name: "risen"})
				}
			}
			restart := func(stopped func(i int)) {
				for _, q := range p {
					q.kill()
				}
				for i, q := range p {
					stopped(i)
					q.start()
				}
				for _, q := range p {
					q.ready()
				}
			}
			grants(10)
			backups := t.TempDir()
			backup := func(i int) string { return filepath.Join(backups, fmt.Sprint(i)) }
			restart(func(i int) { copyDir(t, p[i].cfg.DataDir, backup(i)) })
			grants(50)
			restart(func(i int) { p[i].putBack(backup(i)) })
			grants(10)
		})
	}
}
