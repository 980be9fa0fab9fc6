package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// secretBytes is twice what an attacker could guess.
const secretBytes = 32

func (a *app) keygenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "keygen", GroupID: groupKeep, Args: cobra.NoArgs,
		Short: "Make a secret for a fleet",
		Long:  "keygen prints 32 random bytes in base64: a line of --secret-file, and an element of Config.Secrets.",
		RunE: a.does(func(context.Context, []string) error {
			secret := make([]byte, secretBytes)
			_, _ = rand.Read(secret) // never fails
			v := struct {
				Secret string `json:"secret"`
			}{base64.StdEncoding.EncodeToString(secret)}
			return a.one(v, func(w io.Writer) { fmt.Fprintln(w, v.Secret) })
		}),
	}
}

// backupInfo is what a backup is of, as JSON.
type backupInfo struct {
	Cluster     string `json:"cluster"`
	ClusterID   string `json:"cluster_id"`
	Commands    uint64 `json:"commands"`
	Written     string `json:"written"`
	Unconfirmed bool   `json:"unconfirmed"`
	Names       int    `json:"names"`
	Keys        int    `json:"keys"`
}

func (a *app) checkBackupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check-backup FILE", GroupID: groupKeep, Args: cobra.ExactArgs(1),
		Short: "Read a backup to its end, and say what it is of",
		RunE: a.does(func(_ context.Context, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return &exit{codeFailed, err, "Name a file that Cluster.Backup has written."}
			}
			defer f.Close()
			info, err := holdfast.CheckBackup(f)
			if err != nil {
				return err
			}
			return a.printBackup(info)
		}),
	}
}

func (a *app) printBackup(info holdfast.BackupInfo) error {
	v := backupInfo{info.Cluster, info.ClusterID, info.Commands, info.Written.UTC().Format(time.RFC3339), info.Unconfirmed, info.Names, info.Keys}
	return a.one(v, func(w io.Writer) {
		fmt.Fprintf(w, "whole: fleet %q, group %s, written %s, %s, %s\n", clean(v.Cluster), v.ClusterID, v.Written,
			view.Plural(v.Names, "name"), view.Plural(v.Keys, "finished key"))
		if v.Unconfirmed {
			fmt.Fprintln(w, "It was written by a node without a majority: it may lack what the group has answered.")
		}
	})
}

// backupCommand writes beside the file, checks what it has written, and only then gives it its name: a
// backup that was cut short is never taken for one.
func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", GroupID: groupKeep, Args: cobra.ExactArgs(1),
		Short: "Write a backup of the group to a file, and check it",
		Long: "backup writes FILE.….part, reads it to its end, and names it FILE, which it never overwrites. --timeout bounds\n" +
			"the joining alone. A fleet without a majority can be backed up as well: the backup says so.",
		RunE: a.does(func(ctx context.Context, args []string) error {
			ctx, stop := a.untilSignal(ctx)
			defer stop()
			if _, err := os.Lstat(args[0]); err == nil {
				return &exit{codeFailed, fmt.Errorf("%s is there already", args[0]), "Name a file that is not there yet."}
			}
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := a.meets(ctx, c); err != nil {
				return err
			}
			info, err := writeBackup(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.printBackup(info)
		}),
	}
}

// meets waits until a replica has taken this client in, whether the fleet serves or not.
func (a *app) meets(ctx context.Context, c *holdfast.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if err := c.Ready(ctx); err != nil && len(c.Status().Voters) == 0 {
		return err
	}
	return nil
}

func writeBackup(ctx context.Context, c *holdfast.Cluster, path string) (info holdfast.BackupInfo, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part") // for its owner alone: it has the values of all locks
	if err != nil {
		return info, err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err == nil {
			err = name(f.Name(), path, syncDir)
		}
		_ = os.Remove(f.Name())
	}()
	if err := c.Backup(ctx, f); err != nil {
		return info, err
	}
	if err := f.Sync(); err != nil {
		return info, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return info, err
	}
	return holdfast.CheckBackup(f)
}

// name gives a file its name, unless there is another file of that name by now, and has sync write the
// directory: before that a power cut takes the name away.
func name(part, path string, sync func(dir string) error) error {
	if err := os.Link(part, path); errors.Is(err, os.ErrExist) {
		return err
	} else if err != nil { // the file system has no links
		if _, found := os.Lstat(path); found == nil {
			return os.ErrExist
		}
		if err := os.Rename(part, path); err != nil {
			return err
		}
	}
	if err := sync(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s is whole, and a power cut may take its name away: %w", path, err)
	}
	return nil
}

// syncDir makes the names in a directory survive a power cut. Windows has no call for that.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// recovered is the report of a recovery, as JSON.
type recovered struct {
	DataDir      string         `json:"data_dir"`
	OldClusterID string         `json:"old_cluster_id"`
	ClusterID    string         `json:"cluster_id"`
	NodeID       string         `json:"node_id"`
	OldVoters    []string       `json:"old_voters"`
	Commands     uint64         `json:"commands"`
	Index        uint64         `json:"index"`
	Term         uint64         `json:"term"`
	Written      string         `json:"written"`
	Complete     bool           `json:"complete"`
	Unconfirmed  bool           `json:"unconfirmed"`
	Token        holdfast.Token `json:"token"`
	Wait         float64        `json:"wait_seconds"`
	Names        int            `json:"names"`
	Keys         int            `json:"keys"`
}

func viewRecovered(r holdfast.RecoverReport) recovered {
	return recovered{
		r.DataDir, r.OldClusterID, r.ClusterID, r.NodeID, append([]string{}, r.OldVoters...), r.Commands, r.Index, r.Term,
		r.Written.UTC().Format(time.RFC3339), r.Complete, r.Unconfirmed, r.Token, r.Wait.Seconds(), r.Names, r.Keys,
	}
}

const recoverLong = `%s

It looks for the former group by --join first, and refuses where it sees a majority; --unseen leaves that
out. A group that is recovered while its majority lives grants locks a second time. Without --all-stopped
the new group grants no lock until the longest lease of the former one has ended. Read
docs/operations.md#when-the-majority-is-lost-for-good first.`

// recovery is a command that makes a group of one.
func (a *app) recovery(cmd *cobra.Command, source func(args []string) (holdfast.RecoverConfig, error)) *cobra.Command {
	var unseen, allStopped bool
	var bind string
	var floor uint64
	cmd.GroupID, cmd.Long = groupKeep, fmt.Sprintf(recoverLong, cmd.Long)
	flags := cmd.Flags()
	flags.BoolVar(&unseen, "unseen", false, "do not look for the former group")
	flags.BoolVar(&allStopped, "all-stopped", false, "no process of the former group runs, wherever it is: grant locks at once")
	flags.StringVar(&bind, "bind", "", "address to look from (default: any port)")
	flags.Uint64Var(&floor, "token-floor", 0, "the highest token that a resource has seen")
	flags.BoolVar(&a.yes, "yes", false, "do not ask")
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		ctx, stop := a.untilSignal(ctx)
		defer stop()
		cfg, err := source(args)
		if err != nil {
			return err
		}
		cfg.Unseen, cfg.AllStopped, cfg.Bind, cfg.TokenFloor = unseen, allStopped, bind, holdfast.Token(floor)
		cfg.Cluster, cfg.Join, cfg.Logger = a.fleet.name(), a.fleet.seeds(), a.log()
		if cfg.Secrets, err = a.fleet.secrets(); err != nil {
			return err
		}
		if cfg.TLS, err = a.fleet.certificates(); err != nil {
			return err
		}
		if !cfg.Unseen && len(cfg.Join) == 0 {
			return &exit{codeUsage, errors.New("nobody says where the former group was"), "Say --join HOST:PORT, so that a majority that lives is found; or --unseen if you know that there is none."}
		}
		if err := a.sure(ctx, "A new group is made, and nothing of the former one may serve any more."); err != nil {
			return err
		}
		report, err := holdfast.Recover(ctx, cfg)
		if err != nil {
			return err
		}
		return a.one(viewRecovered(report), func(w io.Writer) { fmt.Fprintln(w, clean(report.String())) })
	})
	return cmd
}

func (a *app) recoverCommand() *cobra.Command {
	var dirs []string
	cmd := a.recovery(&cobra.Command{
		Use: "recover --data-dir DIR…", Args: cobra.NoArgs,
		Short: "Make a group of one out of data directories, when the majority is lost for good",
		Long:  "recover makes a group of one out of the directory that had come furthest of those named.",
	}, func([]string) (cfg holdfast.RecoverConfig, err error) {
		cfg.DataDirs = dirs
		if len(dirs) == 0 {
			err = &exit{codeUsage, errors.New("no directory is named"), "Say --data-dir DIR, once for each node of the group on this machine."}
		}
		return cfg, err
	})
	cmd.Flags().StringSliceVar(&dirs, "data-dir", nil, "data directory of a stopped node; several are compared")
	return cmd
}

func (a *app) restoreCommand() *cobra.Command {
	var dir string
	cmd := a.recovery(&cobra.Command{
		Use: "restore FILE --data-dir DIR", Args: cobra.ExactArgs(1),
		Short: "Make a data directory of a backup",
		Long:  "restore makes a group of one of a backup, in an empty directory: open a node on it, and let the others join.",
	}, func(args []string) (cfg holdfast.RecoverConfig, err error) {
		if dir == "" {
			return cfg, &exit{codeUsage, errors.New("no directory is named"), "Say --data-dir DIR: an empty one, or one that is not there yet."}
		}
		f, err := os.Open(args[0])
		if err != nil {
			return cfg, &exit{codeFailed, err, "Name a file that Cluster.Backup has written."}
		}
		cfg.DataDir, cfg.From = dir, f // open until the end of the process
		return cfg, nil
	})
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory for the first node of the new group")
	return cmd
}
