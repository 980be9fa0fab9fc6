package holdfast

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-sockaddr/template"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// Token is a fencing token: strictly increasing per lock name for ever, below 1<<53.
type Token = fence.Token

// Config says how a node runs. The zero value is a working single node in memory.
type Config struct {
	// Cluster is the name of the fleet; nodes of another name are refused. 1 to 64 bytes.
	// Default "holdfast".
	Cluster string
	// Name is a label for people, up to 128 bytes. Default: the host name.
	Name string
	// DataDir holds the node's identity and log; it belongs to one node alone and is locked while open.
	// Default "": everything is kept in memory, and the node comes back as a new one.
	DataDir string
	// Bind is the host:port to listen at, TCP and UDP on the same number; go-sockaddr templates such
	// as "{{ GetPrivateIP }}:7643" are filled in. A bind to other than loopback needs Secrets, TLS
	// or Insecure. Default "127.0.0.1:0".
	Bind string
	// Advertise is the host:port that other nodes reach this one at; port 0 is the bound one. Default: the bound address.
	Advertise string
	// Join lists where to find other nodes: host:port, dns+host:port, dnssrv+name, file+path.
	// They are tried for ever, and names are resolved again every minute.
	Join []string
	// Bootstrap is how many nodes must have met before the first group forms. It matters only until a
	// group exists: a node whose peers have a group joins it. The group keeps its founder's, and serves no lock
	// before as many nodes are in it. -1: never form, only join.
	// Default 1 if Join is empty, else 3.
	Bootstrap int
	// Voters is how many replicas vote: odd, 1 to 7. The others follow. Default 3.
	Voters int
	// Zone is this node's failure domain, up to 64 bytes; voters are spread over zones.
	Zone string
	// Secrets are shared by the fleet: the first seals, all open. They authenticate and encrypt the
	// gossip and every connection.
	Secrets []string
	// TLS is used for connections instead of the keys derived from Secrets: your own certificates, mutual.
	TLS *tls.Config
	// Insecure allows a Bind beyond loopback without Secrets or TLS.
	Insecure bool
	// TTL is the default time that a lease lives without renewal, 100 ms to 24 h. Default 15 s.
	TTL time.Duration
	// MaxClockDrift bounds the error of clock rates between two nodes, as a fraction below 0.5. A lease
	// is only as safe as this bound is true. Default 0.01.
	MaxClockDrift float64
	// Timing of the Raft group; the same on all nodes. Default: tick 10 ms, heartbeat 20 ms, election 200 ms.
	Timing Timing
	// Logger receives what an operator should know. Its handler must not block, as the node waits for it. Default:
	// warnings and errors to standard error.
	Logger *slog.Logger
	// TokenFloor is asked for the highest token that a resource has seen when a group is born, so that
	// tokens rise even after a loss of all data together with a clock that was set back. Optional.
	TokenFloor func(context.Context) (Token, error)
	// Events are optional hooks.
	Events Events
}

// Timing is the pace of the Raft group. Each zero field takes its default.
type Timing struct {
	Tick      time.Duration // unit of the two others: 1 ms to 1 s, whole milliseconds
	Heartbeat time.Duration // whole ticks, up to a minute
	Election  time.Duration // a raft leader is missed after one to two of these; whole ticks, at least three heartbeats
}

const (
	clusterMax = 64
	nameMax    = 128
	zoneMax    = 64
	secretsMax = 16
	votersMax  = 7
	nodesMax   = 1000 // nodes to wait for at bootstrap
)

// withDefaults returns a copy with every empty field filled in.
func (c Config) withDefaults() Config {
	if c.Cluster == "" {
		c.Cluster = "holdfast"
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname()
		if len(c.Name) > nameMax {
			c.Name = c.Name[:nameMax]
		}
	}
	if c.Bind == "" {
		c.Bind = "127.0.0.1:0"
	}
	if c.Bootstrap == 0 {
		c.Bootstrap = 3
		if len(c.Join) == 0 {
			c.Bootstrap = 1
		}
	}
	if c.Voters == 0 {
		c.Voters = 3
	}
	if c.TTL == 0 {
		c.TTL = 15 * time.Second
	}
	if c.MaxClockDrift == 0 {
		c.MaxClockDrift = 0.01
	}
	if c.Timing.Tick == 0 {
		c.Timing.Tick = 10 * time.Millisecond
	}
	if c.Timing.Heartbeat == 0 {
		c.Timing.Heartbeat = 2 * c.Timing.Tick
	}
	if c.Timing.Election == 0 {
		c.Timing.Election = 10 * c.Timing.Heartbeat
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	c.Logger = slog.New(careful{c.Logger.Handler()})
	return c
}

// validate names the first field that is not acceptable. It changes nothing.
func (c Config) validate() error {
	if err := checkText("Config.Cluster", c.Cluster, 1, clusterMax); err != nil {
		return err
	}
	if err := checkText("Config.Name", c.Name, 0, nameMax); err != nil {
		return err
	}
	if err := checkText("Config.Zone", c.Zone, 0, zoneMax); err != nil {
		return err
	}
	if strings.ContainsRune(c.DataDir, 0) {
		return invalid("Config.DataDir", "contains a NUL byte")
	}
	for _, j := range c.Join {
		if err := membership.ParseJoin(j); err != nil {
			return invalid("Config.Join", "entry %q: %v", j, err)
		}
	}
	if c.Bootstrap < -1 || c.Bootstrap > nodesMax {
		return invalid("Config.Bootstrap", "%d is not -1 to %d", c.Bootstrap, nodesMax)
	}
	if c.Bootstrap > 1 && len(c.Join) == 0 {
		return invalid("Config.Join", "is empty, but Bootstrap waits for %d nodes", c.Bootstrap)
	}
	if c.Voters < 1 || c.Voters > votersMax || c.Voters%2 == 0 {
		return invalid("Config.Voters", "%d is not odd, 1 to %d", c.Voters, votersMax)
	}
	if err := checkTTL("Config.TTL", c.TTL); err != nil {
		return err
	}
	if !(c.MaxClockDrift > 0 && c.MaxClockDrift < 0.5) {
		return invalid("Config.MaxClockDrift", "%v is not above 0 and below 0.5", c.MaxClockDrift)
	}
	if err := c.Timing.validate(); err != nil {
		return err
	}
	return c.validateSecurity()
}

func (t Timing) validate() error {
	if t.Tick < time.Millisecond || t.Tick > time.Second || t.Tick%time.Millisecond != 0 {
		return invalid("Config.Timing.Tick", "%v is not 1 ms to 1 s in whole milliseconds", t.Tick)
	}
	if t.Heartbeat < t.Tick || t.Heartbeat > time.Minute || t.Heartbeat%t.Tick != 0 {
		return invalid("Config.Timing.Heartbeat", "%v is not whole ticks of %v, up to a minute", t.Heartbeat, t.Tick)
	}
	if t.Election < 3*t.Heartbeat || t.Election > 10*time.Minute || t.Election%t.Tick != 0 {
		return invalid("Config.Timing.Election", "%v is not whole ticks, three heartbeats to ten minutes", t.Election)
	}
	return nil
}

func (c Config) validateSecurity() error {
	if len(c.Secrets) > secretsMax {
		return invalid("Config.Secrets", "%d of them, at most %d", len(c.Secrets), secretsMax)
	}
	for i, s := range c.Secrets {
		if s == "" {
			return invalid("Config.Secrets", "number %d is empty", i)
		}
	}
	if c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil && c.TLS.GetConfigForClient == nil {
		return invalid("Config.TLS", "has no certificate")
	}
	bind, err := c.bind()
	if err != nil {
		return err
	}
	if c.Advertise != "" {
		host, port, err := net.SplitHostPort(c.Advertise)
		_, noPort := strconv.ParseUint(port, 10, 16)
		if err != nil || noPort != nil || strings.Contains(host, "+") || membership.ParseJoin(net.JoinHostPort(host, "1")) != nil {
			return invalid("Config.Advertise", "%q is not host:port", c.Advertise)
		}
	}
	if !loopback(bind) && len(c.Secrets) == 0 && c.TLS == nil && !c.Insecure {
		return invalid("Config.Bind", "%s is not a loopback address: set Secrets or TLS, or Insecure", bind)
	}
	return nil
}

// bind fills in a go-sockaddr template.
func (c Config) bind() (string, error) {
	bind := c.Bind
	if strings.Contains(bind, "{{") {
		parsed, err := template.Parse(bind)
		if err != nil {
			return "", invalid("Config.Bind", "template: %v", err)
		}
		bind = strings.TrimSpace(parsed)
	}
	_, port, err := net.SplitHostPort(bind)
	if err == nil {
		_, err = net.LookupPort("tcp", port) // a number, or a name that the system knows
	}
	if err != nil {
		return "", invalid("Config.Bind", "%q is not host:port", bind)
	}
	return bind, nil
}

func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// checkText accepts valid UTF-8 of min to max bytes without control characters.
func checkText(field, s string, min, max int) error {
	if len(s) < min {
		return invalid(field, "is empty")
	}
	if len(s) > max {
		return invalid(field, "has %d bytes, at most %d", len(s), max)
	}
	if !utf8.ValidString(s) {
		return invalid(field, "is not valid UTF-8")
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return invalid(field, "has a control character at byte %d", i)
	}
	return nil
}
