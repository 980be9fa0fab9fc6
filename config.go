package holdfast

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/member"
)

// Token is a fencing token: strictly increasing per lock name forever, below 1<<53.
type Token = fence.Token

// Config is the configuration of a node. The zero value is a working single node in memory, on
// loopback.
type Config struct {
	// Cluster is the name of the fleet; nodes of another name are refused. 1 to 64 bytes.
	// Default "holdfast".
	Cluster string
	// Name is the node's name for people, up to 128 bytes. Default: the host name.
	Name string
	// DataDir holds the node's identity and log; it belongs to one node alone, which locks it while
	// open. Default "": the node keeps its data in memory, and is a new node after a restart.
	DataDir string
	// Bind is the host:port to listen at, TCP and UDP on the same number; go-sockaddr templates
	// such as "{{ GetPrivateIP }}:7643" are expanded. A Bind beyond loopback needs Secrets,
	// TLS or Insecure. Default "127.0.0.1:0".
	Bind string
	// Advertise is the host:port that other nodes dial to reach this one; port 0 is the bound one.
	// Default: the bound address.
	Advertise string
	// Join lists addresses of other nodes: host:port, dns+host:port, dnssrv+name, file+path. The node
	// tries them forever, and resolves names again every minute. While they lead to no node, it tries
	// the addresses of other nodes that DataDir has. Other nodes name a node that has no Join in theirs.
	Join []string
	// Bootstrap is the number of nodes that must have met before the first group forms. More than half
	// of them must agree on its founder, and the group serves no lock before it has so many nodes. Give
	// all nodes the same: more than half of the new nodes that start together, for two parts that do
	// not see each other yet could found a group each. Bootstrap matters only until a group exists: a
	// node that sees a group joins it. -1 means to join and never to form; 1 to found a group alone,
	// unless Join finds one, or something answers there that does not let the node in, as with other
	// secrets. A seed is a node that others name in Join and whose own Join is empty; its
	// Bootstrap is that of the others. A seed with Bootstrap 1 founds a second group if it restarts
	// without its disk; the two serve side by side until they meet, and then the group that has had no
	// node but its founder yields (ErrYielded). Default: 3 if there is a Join; without one 1 on
	// loopback, and beyond loopback it must be set.
	Bootstrap int
	// Voters is the number of replicas that vote: odd, 1 to 7. Default 3.
	Voters int
	// Replicas is how many nodes hold a replica of the group's state: the voters, and standbys that
	// follow; more than Voters, at most 1,000. Every other node of the fleet is a client: its calls
	// go over one connection to a replica. It becomes a standby when
	// a replica is gone, and a standby too many becomes a client; leases, waiting calls and watches live on.
	// The raft leader's Config counts. Default: Voters + 2.
	Replicas int
	// Zone is this node's failure domain: "zone" or "zone/host", the zone up to the first slash, 128
	// bytes at most. Voters are spread over zones, then over hosts, when they are chosen; none moves
	// later, but a standby makes way for a node of a zone that lacks a replica. A new group chooses
	// among the nodes that Bootstrap waits for: with Bootstrap as large as the fleet, among all.
	Zone string
	// Secrets are the keys that the fleet shares: the first seals, all open. They authenticate and
	// encrypt the gossip and every connection. One with white space at its ends is ErrInvalid: it is most
	// often the newline of a file, which other nodes and tools trim.
	Secrets []string
	// TLS is used for connections instead of the keys derived from Secrets: your own certificates,
	// mutual TLS 1.3 whatever ClientAuth says. A node shows its certificate as server and as client
	// (both extended key usages, if any). The certificate must name the host that others dial,
	// which is Advertise: an IP address as IP SAN. With ServerName it must name that instead, the
	// same for all. RootCAs are the authorities of nodes that are dialed, ClientCAs of those that
	// dial; the other stands for one that is nil, never the system's; one that is empty is refused.
	// InsecureSkipVerify needs VerifyConnection or VerifyPeerCertificate.
	TLS *tls.Config
	// Insecure allows a Bind beyond loopback without Secrets or TLS.
	Insecure bool
	// ClientOnly makes this node a client: it never holds a replica, and costs the others next to
	// nothing. All calls work as on any node. A client keeps one connection to one of the nodes with
	// a replica, under the same Secrets or TLS, and goes to another if that one is gone: Join leads
	// to the first, which names the others. It listens at no port, takes no part in gossip, has no
	// DataDir, and is a new node after each Open. One that only asks questions leaves nothing in the
	// group. Of this Config it uses Cluster, Name, Zone, Join, Secrets, TLS, TTL, MaxTTL,
	// MaxClockDrift, Logger and Events; Restore, DataDir and BackupEvery are ErrInvalid. Its MaxTTL
	// must not be above that of the other nodes.
	ClientOnly bool
	// TTL is the default time that a lease lives without renewal, 100 ms to MaxTTL. Default 15 s, or
	// MaxTTL if that is shorter.
	TTL time.Duration
	// MaxTTL is the longest TTL that calls of this process may request, 100 ms to 24 h: a call with a
	// longer one returns ErrInvalid. The group records the highest MaxTTL of its processes, and a
	// recovered group waits for that time before it grants a lock. Give all nodes the same.
	// Default 5 min.
	MaxTTL time.Duration
	// MaxClockDrift bounds the error of clock rates between two nodes, as a fraction below 0.5. The
	// promises of a lease hold only if this bound does. Default 0.01.
	MaxClockDrift float64
	// Timing of the Raft group; the same on all nodes. Default: tick 50 ms, heartbeat 2 ticks, election
	// 3 heartbeats.
	Timing Timing
	// Logger receives the log lines for operators. Its handler must not block, as the node waits for
	// it. Default: slog.Default() at the call of Open.
	Logger *slog.Logger
	// ReplaceAfter is the time for which the group waits for a voter that Raft does not hear before
	// another node takes its place; 2 s, or ten heartbeats if that is more, to 24 h. A voter that
	// leaves is replaced at once. A node that comes back later is the same node, with the leases that
	// it still holds; it votes again when a voter is missing. Default 30 s, and more if
	// Timing.Heartbeat is above a second.
	ReplaceAfter time.Duration
	// HoldLevel keeps the feature level of the group from rising above it, so that the fleet may go back
	// to a former version: see Status.Level. Give all nodes the same, since the raft leader's counts; a
	// level that was reached before does not fall. Default 0: the level rises when all nodes that
	// belong to the group have known the next one for an hour.
	HoldLevel uint64
	// TokenFloor returns the highest token that a resource has seen. The founder of a group calls it,
	// and the group waits for the answer; each node calls it again when it becomes raft leader for
	// the first time since Open, and no call waits for that. With it tokens rise even if clocks were
	// set back and all data was lost, or an older backup restored. Optional.
	TokenFloor func(context.Context) (Token, error)
	// Restore is a backup (Cluster.Backup) with which the group of this node begins: one node of a
	// fleet without disks has it, with Bootstrap 1 and no DataDir, and the others join. The group
	// grants its first lock after MaxTTL of the former group. Unlike Recover, Open does not look for
	// the former group. Open reads the backup to its end. A node that is started again with it, while
	// the group that it has founded lives, joins that.
	Restore io.Reader
	// BackupEvery is the interval at which the raft leader makes a backup, a second or more; 0: never.
	// BackupTo stores a backup: it must read it to its end, where an error says that the backup is
	// not whole; CheckBackup checks what was stored. The context ends with the node. Metrics.Backups
	// describes this node's last good backup.
	BackupEvery time.Duration
	BackupTo    func(ctx context.Context, backup io.Reader) error
	// Events are optional hooks.
	Events Events
}

// Timing is the pace of the Raft group. Each zero field takes its default.
type Timing struct {
	Tick      time.Duration // unit of the two others: 1 ms to 1 s, whole milliseconds
	Heartbeat time.Duration // whole ticks, up to a minute
	Election  time.Duration // voters campaign after one to two of these without a raft leader; whole ticks, at least three heartbeats
}

const (
	clusterMax = 64
	nameMax    = 128
	zoneMax    = member.ZoneMax
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
	switch {
	case c.Bootstrap != 0:
	case len(c.Join) > 0:
		c.Bootstrap = 3
	case !c.public():
		c.Bootstrap = 1
	}
	if c.Voters == 0 {
		c.Voters = 3
	}
	if c.Replicas == 0 {
		c.Replicas = c.Voters + 2
	}
	if c.MaxTTL == 0 {
		c.MaxTTL = 5 * time.Minute
	}
	if c.TTL == 0 {
		c.TTL = min(15*time.Second, c.MaxTTL)
	}
	c.TTL, c.MaxTTL = c.TTL.Truncate(time.Millisecond), c.MaxTTL.Truncate(time.Millisecond) // as the group counts
	if c.MaxClockDrift == 0 {
		c.MaxClockDrift = 0.01
	}
	t := &c.Timing
	t.Tick, t.Heartbeat, t.Election = report.Pace(t.Tick, t.Heartbeat, t.Election)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = slog.New(panicSafeHandler{c.Logger.Handler()})
	if c.ReplaceAfter == 0 {
		c.ReplaceAfter = max(autopilot.ReplaceAfterDefault, 6*c.Timing.moment())
	}
	return c
}

// moment is the silence after which a replica no longer counts as alive: some heartbeats.
func (t Timing) moment() time.Duration { return max(autopilot.MomentDefault, 5*t.Heartbeat) }

// validate names every field that is not acceptable, each in a *FieldError. It changes nothing.
func (c Config) validate() error {
	errs := []error{
		checkText("Config.Cluster", c.Cluster, 1, clusterMax),
		checkText("Config.Name", c.Name, 0, nameMax),
		checkText("Config.Zone", c.Zone, 0, zoneMax),
		checkTTL("Config.MaxTTL", c.MaxTTL, TTLMax),
		checkTTL("Config.TTL", c.TTL, c.MaxTTL),
	}
	refuse := func(field, format string, args ...any) { errs = append(errs, invalid(field, format, args...)) }
	if strings.ContainsRune(c.DataDir, 0) {
		refuse("Config.DataDir", "contains a NUL byte")
	}
	for _, j := range c.Join {
		if err := member.ParseJoin(j); err != nil {
			refuse("Config.Join", "entry %q: %v", j, err)
		}
	}
	if c.ClientOnly {
		errs = append(errs, c.validateClient())
	}
	if c.Bootstrap < -1 || c.Bootstrap > nodesMax {
		refuse("Config.Bootstrap", "%d is not -1 to %d", c.Bootstrap, nodesMax)
	}
	if c.Voters < 1 || c.Voters > votersMax || c.Voters%2 == 0 {
		refuse("Config.Voters", "%d is not odd, 1 to %d", c.Voters, votersMax)
	}
	if c.Replicas <= c.Voters || c.Replicas > nodesMax {
		refuse("Config.Replicas", "%d is not above Voters (%d), and at most %d", c.Replicas, c.Voters, nodesMax)
	}
	if c.Restore != nil && (c.DataDir != "" || c.Bootstrap != 1) {
		refuse("Config.Restore", "is for a node with Bootstrap 1 and without a DataDir: for one with a DataDir use Recover")
	}
	if c.BackupEvery < 0 || c.BackupEvery > 0 && c.BackupEvery < time.Second || (c.BackupEvery > 0) != (c.BackupTo != nil) {
		refuse("Config.BackupEvery", "%v is not a second or more together with BackupTo, or none of the two", c.BackupEvery)
	}
	if !(c.MaxClockDrift > 0 && c.MaxClockDrift < 0.5) {
		refuse("Config.MaxClockDrift", "%v is not above 0 and below 0.5", c.MaxClockDrift)
	}
	if err := c.Timing.validate(); err != nil {
		errs = append(errs, err)
	} else if least := 2 * c.Timing.moment(); c.ReplaceAfter < least || c.ReplaceAfter > 24*time.Hour {
		refuse("Config.ReplaceAfter", "%v is not %v (2 s, or ten heartbeats if that is more) to 24 h", c.ReplaceAfter, least)
	}
	if err := c.validateSecurity(); err != nil {
		errs = append(errs, err)
	} else if c.Bootstrap == 0 { // after withDefaults
		refuse("Config.Bootstrap", "is 0 and Join is empty, on a node that others can reach: set Bootstrap: 1 if it is "+
			"to found a group alone; for a fleet, set Join to where the others are, or Bootstrap to how many nodes are to meet "+
			"if the others join this one")
	}
	return errors.Join(errs...)
}

// validateClient names the field that a client cannot have, or must have.
func (c Config) validateClient() error {
	switch {
	case len(c.Join) == 0:
		return invalid("Config.Join", "is empty, on a client: it leads to the nodes with a replica")
	case c.DataDir != "":
		return invalid("Config.DataDir", "is for a node with a replica, and this one is a client (ClientOnly)")
	case c.Restore != nil:
		return invalid("Config.Restore", "is for a node with a replica, and this one is a client (ClientOnly)")
	case c.BackupEvery != 0:
		return invalid("Config.BackupEvery", "is for a node with a replica, and this one is a client (ClientOnly)")
	}
	return nil
}

// public reports whether nodes of other machines may reach this one, as far as the Config tells. A
// group that such a node founds alone may be the second of its fleet. A Bind that is malformed is
// for validate to name.
func (c Config) public() bool {
	bind, err := c.bind()
	return err == nil && !loopback(bind) || c.Advertise != "" && !loopback(c.Advertise)
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
		if strings.TrimSpace(s) != s {
			return invalid("Config.Secrets", "number %d has white space at its ends, perhaps the newline of a file: a node "+
				"that trims it would have another secret", i)
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
		if err != nil || noPort != nil || strings.Contains(host, "+") || member.ParseJoin(net.JoinHostPort(host, "1")) != nil {
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
		bind = bracketed(strings.TrimSpace(parsed))
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

// bracketed puts the brackets around an IPv6 address that a template has put before a port without
// them.
func bracketed(hostport string) string {
	if i := strings.LastIndexByte(hostport, ':'); i > 0 {
		if ip, err := netip.ParseAddr(hostport[:i]); err == nil && ip.Is6() {
			return net.JoinHostPort(hostport[:i], hostport[i+1:])
		}
	}
	return hostport
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

// panicSafeHandler is a handler of the user's. It is called from goroutines of the node and of its
// engine, where a panic of it would end the process: it costs the line.
type panicSafeHandler struct{ slog.Handler }

// Enabled reports whether lines of a level are wanted.
func (h panicSafeHandler) Enabled(ctx context.Context, level slog.Level) (ok bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

// Handle writes a line.
func (h panicSafeHandler) Handle(ctx context.Context, line slog.Record) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("holdfast: the handler of Config.Logger panicked: %v", value)
		}
	}()
	return h.Handler.Handle(ctx, line)
}

// WithAttrs is a handler that adds attributes.
func (h panicSafeHandler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return panicSafeHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup is a handler that opens a group.
func (h panicSafeHandler) WithGroup(name string) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return panicSafeHandler{h.Handler.WithGroup(name)}
}
