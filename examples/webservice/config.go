package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// config is what the environment says. What is not set has the default of holdfast.Config.
//
//	HTTP_ADDR            where to serve. Default ":8080"
//	JOB_EVERY            period of the job. Default "1m"
//	HOLDFAST_CLUSTER     name of the fleet
//	HOLDFAST_NAME        name of the process, for people. Default: the host name
//	HOLDFAST_DATA_DIR    directory of the node. Default: none, the process comes back as a new node
//	HOLDFAST_BIND        host:port of the node, TCP and UDP. Default "0.0.0.0:7643"
//	HOLDFAST_ADVERTISE   host:port that others reach it at
//	HOLDFAST_JOIN        where the others are, by commas: "dns+webservice:7643"
//	HOLDFAST_BOOTSTRAP   how many nodes must have met before the first group forms
//	HOLDFAST_VOTERS      how many nodes vote
//	HOLDFAST_ZONE        failure domain
//	HOLDFAST_SECRETS     shared secrets, by commas: the first seals, all open
//	HOLDFAST_TTL         how long a lease lives without renewal
type config struct {
	http     string
	every    time.Duration
	holdfast holdfast.Config
}

// leaveFile says, beside the data directory, that this process is to leave for good when it is told to
// stop: a process with a directory cannot know by itself whether it will come back.
func (c config) leaveFile() string { return filepath.Clean(c.holdfast.DataDir) + ".leave" }

// meanToLeave writes the leave file. A process without a data directory leaves anyway, and has no place
// beside which the file could lie.
func (c config) meanToLeave() error {
	if c.holdfast.DataDir == "" {
		return errors.New("HOLDFAST_DATA_DIR is not set: a process without a data directory leaves when it is told to stop")
	}
	return os.WriteFile(c.leaveFile(), nil, 0o600)
}

// leaves reports whether this process does not come back as the same node.
func (c config) leaves() bool {
	if c.holdfast.DataDir == "" {
		return true
	}
	_, err := os.Stat(c.leaveFile())
	return err == nil
}

// fromEnvironment reads the configuration. An error names the variable.
func fromEnvironment(get func(string) string) (config, error) {
	c := config{http: ":8080", every: time.Minute, holdfast: holdfast.Config{
		Cluster: get("HOLDFAST_CLUSTER"), Name: get("HOLDFAST_NAME"), DataDir: get("HOLDFAST_DATA_DIR"),
		Bind: "0.0.0.0:7643", Advertise: get("HOLDFAST_ADVERTISE"), Zone: get("HOLDFAST_ZONE"),
		Join: list(get("HOLDFAST_JOIN")), Secrets: list(get("HOLDFAST_SECRETS")),
	}}
	if v := get("HTTP_ADDR"); v != "" {
		c.http = v
	}
	if v := get("HOLDFAST_BIND"); v != "" {
		c.holdfast.Bind = v
	}
	for name, field := range map[string]*int{"HOLDFAST_BOOTSTRAP": &c.holdfast.Bootstrap, "HOLDFAST_VOTERS": &c.holdfast.Voters} {
		if v := get(name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil {
				return c, fmt.Errorf("%s: %w", name, err)
			}
			*field = n
		}
	}
	for name, field := range map[string]*time.Duration{"HOLDFAST_TTL": &c.holdfast.TTL, "JOB_EVERY": &c.every} {
		if v := get(name); v != "" {
			d, err := time.ParseDuration(v)
			if err != nil || d <= 0 {
				return c, fmt.Errorf("%s: %q is no duration above zero", name, v)
			}
			*field = d
		}
	}
	if c.every < holdfast.PeriodMin {
		return c, fmt.Errorf("JOB_EVERY: %v is below %v, the shortest period of a job", c.every, holdfast.PeriodMin)
	}
	return c, nil
}

// list takes a list by commas apart.
func list(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
