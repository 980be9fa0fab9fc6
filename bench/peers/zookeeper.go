package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/process"
)

// zookeeperSystem is three servers of ZooKeeper, which sync every commit.
type zookeeperSystem struct{ java, classes string }

func (z *zookeeperSystem) obtain(ctx context.Context, s *store) (err error) {
	z.java, err = s.installed(ctx, "java", []string{"/usr/lib/jvm/*/bin"}, "default-jre-headless")
	if err != nil {
		return err
	}
	const place = "/usr/share/java"
	if _, err = s.installed(ctx, "zookeeper.jar", []string{place}, "libzookeeper-java"); err != nil {
		return err
	}
	// Not all of the directory: two of its libraries for logging refuse to be loaded together.
	var jars []string
	for _, name := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "metrics-core", "netty-*",
		"snappy-java", "commons-io", "commons-cli",
	} {
		found, err := filepath.Glob(filepath.Join(place, name+".jar"))
		if err != nil {
			return err
		}
		jars = append(jars, found...)
	}
	z.classes = strings.Join(jars, string(filepath.ListSeparator))
	return nil
}

func (z *zookeeperSystem) start(_ context.Context, dir string) (*cluster, error) {
	addrs, err := process.FreeAddrs(9)
	if err != nil {
		return nil, err
	}
	c := &cluster{addrs: addrs[:3], goodbye: syscall.SIGTERM}
	var members strings.Builder
	for i := range 3 {
		fmt.Fprintf(&members, "server.%d=127.0.0.1:%s:%s\n", i+1, port(addrs[3+i]), port(addrs[6+i]))
	}
	for i, data := range three(dir) {
		if err := os.Mkdir(data, 0o700); err != nil {
			return c, err
		}
		config := filepath.Join(data, "zoo.cfg")
		text := fmt.Sprintf("tickTime=500\ninitLimit=20\nsyncLimit=4\nadmin.enableServer=false\n"+
			"4lw.commands.whitelist=srvr\nmaxClientCnxns=0\ndataDir=%s\n"+
			"clientPortAddress=127.0.0.1\nclientPort=%s\n%s",
			data, port(addrs[i]), members.String())
		err := errors.Join(os.WriteFile(config, []byte(text), 0o600),
			os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600))
		if err != nil {
			return c, err
		}
		s, err := launch(exec.Command(z.java, "-Xmx512m", "-Dzookeeper.jmx.log4j.disable=true", "-cp", z.classes,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", config), dir)
		if err != nil {
			return c, err
		}
		c.servers = append(c.servers, s)
	}
	return c, c.client("zookeeper")
}

func (z *zookeeperSystem) leader(ctx context.Context, c *cluster) (int, error) {
	for i, addr := range c.addrs {
		state, err := zookeeperState(ctx, addr)
		if err != nil {
			return 0, err
		}
		if strings.Contains(state, "Mode: leader") {
			return i, nil
		}
	}
	return 0, errors.New("zookeeper has no leader")
}

// zookeeperState asks a server by one of its four-letter words.
func zookeeperState(ctx context.Context, addr string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

type zookeeperLocks struct{ conn *zk.Conn }

// silent drops what the client would log.
type silent struct{}

// Printf implements the client's logger.
func (silent) Printf(string, ...any) {}

func dialZookeeper(addrs []string) (locks, error) {
	conn, events, err := zk.Connect(addrs, 4*time.Second,
		zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	go func() {
		for range events { // it ends when the connection is closed
		}
	}()
	return &zookeeperLocks{conn}, nil
}

func (z *zookeeperLocks) leads() bool { return true }

func (z *zookeeperLocks) Close() error {
	z.conn.Close()
	return nil
}

// caller's calls heed no context, as the client has none.
func (z *zookeeperLocks) caller(context.Context, bool) (caller, error) {
	return func(_ context.Context, name string) (func(context.Context) error, error) {
		l := zk.NewLock(z.conn, "/locks/"+name, zk.WorldACL(zk.PermAll))
		return func(context.Context) error { return l.Unlock() }, l.Lock()
	}, nil
}
