package fsm

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// BatchMax is how many commands a Batch has at most. Part of the replicated machine.
const BatchMax = 512

// Batch is several commands in one entry of the log, carried out one after the other as if each had
// an entry of its own: each has its number and its outcome (Outcome.Each), and a refused command
// changes nothing for the others. Once the commands have done as much as an entry may, the rest is
// answered CodeLater: those commands were not carried out, and have no number. All commands are of
// one process, or of clients (Via), and of the operations that callers ask for: Acquire, Withdraw,
// Release, SetValue, CloseSession and Finish. A batch without commands, with more than BatchMax, or with any
// other command is malformed: none of it is carried out, and the answer is CodeInvalid.
//
// Commands about processes and about time have entries of their own, so a reader of the log finds a
// Hello at the beginning of an entry.
type Batch struct{ Commands []Command }

// about is of the process of the first command that is of one. Apply compares each of them with the
// process that proposed the batch.
func (c Batch) about() (op, Process) {
	for _, one := range c.Commands {
		if of := ProcessOf(one); of != (Process{}) {
			return opBatch, of
		}
	}
	return opBatch, Process{}
}

func (c Batch) appendTo(b []byte) []byte {
	b = AppendBatch(b)
	for _, one := range c.Commands {
		b = AppendToBatch(b, Encode(one))
	}
	return b
}

// AppendBatch appends the beginning of an encoded batch.
func AppendBatch(b []byte) []byte { return appendHeader(b, opBatch) }

// AppendToBatch appends an encoded command to an encoded batch.
func AppendToBatch(b, cmd []byte) []byte { return appendBytes(b, 1, cmd) }

// Travels reports whether an encoded command may be part of a batch.
func Travels(cmd []byte) bool {
	cmd, _ = cutVia(cmd)
	return len(cmd) >= 2 && cmd[0] == commandVersion && op(cmd[1]).travels()
}

func (o op) travels() bool {
	switch o {
	case opAcquire, opWithdraw, opRelease, opSetValue, opCloseSession, opFinish:
		return true
	}
	return false
}

// EntryCost is how much of Cost an entry carries out in full, as far as Cost can tell.
const EntryCost = stepsOfEntry * stepMax

// othersField is the field of an encoded Acquire that each further name of a set is in.
const othersField = 13

// grantsField is the field of an encoded Release that each of its grants is in.
const grantsField = 3

// Cost estimates how many claims an encoded command takes or gives, without decoding it: the names
// of an Acquire, the grants of a Release, and one for any other command. A Release names the first
// lock of a set alone, so what it gives may be more: see Machine.Cost. A batch whose commands cost
// more than EntryCost is answered CodeLater in part.
func Cost(cmd []byte) (claims int, least bool) {
	cmd, _ = cutVia(cmd)
	switch {
	case len(cmd) < 2:
	case op(cmd[1]) == opAcquire:
		return 1 + count(cmd[2:], othersField), false
	case op(cmd[1]) == opRelease:
		return max(1, count(cmd[2:], grantsField)), true
	}
	return 1, false
}

// Known says of an encoded command, or of a batch of them, whether a replica of this version can
// tell what it is: the error wraps ErrUnsupported where it must stop, and ErrMalformed for what no
// version writes. It does not look into the commands.
func Known(cmd []byte) error {
	if isBatch(cmd) {
		_, err := checkBatch(cmd)
		return err
	}
	cmd, _ = cutVia(cmd)
	if len(cmd) < 2 {
		return fmt.Errorf("holdfast: command of %d bytes: %w", len(cmd), ErrMalformed)
	}
	return known(cmd)
}

// known says whether the version and the operation of a command are known.
func known(cmd []byte) error {
	switch {
	case cmd[0] != commandVersion:
		return fmt.Errorf("holdfast: command version %d: %w", cmd[0], ErrUnsupported)
	case cmd[1] == 0 || op(cmd[1]) >= opEnd:
		return fmt.Errorf("holdfast: command operation %d: %w", cmd[1], ErrUnsupported)
	}
	return nil
}

func isBatch(cmd []byte) bool {
	return len(cmd) >= 2 && cmd[0] == commandVersion && op(cmd[1]) == opBatch
}

// parts walks over the commands of an encoded batch, until visit returns false.
func parts(batch []byte, visit func(cmd []byte) bool) error {
	f := fields{rest: batch[2:]}
	for f.next() {
		if f.number == 1 && !visit(f.message()) {
			break
		}
	}
	return f.err
}

// checkBatch returns how many commands a batch has, and the fault of the batch as a whole. An
// unknown command counts before a malformed one: a later version may know it.
func checkBatch(batch []byte) (n int, err error) {
	var wrong, unknown error
	err = parts(batch, func(cmd []byte) bool {
		n++
		cmd, _ = cutVia(cmd)
		switch {
		case n > BatchMax:
			wrong = fmt.Errorf("holdfast: batch of more than %d: %w", BatchMax, ErrMalformed)
		case len(cmd) < 2:
			wrong = fmt.Errorf("holdfast: batch with a command of %d bytes: %w", len(cmd), ErrMalformed)
		default:
			if unknown = known(cmd); unknown == nil && !op(cmd[1]).travels() {
				wrong = fmt.Errorf("holdfast: batch with operation %d: %w", cmd[1], ErrMalformed)
			}
		}
		return n <= BatchMax && unknown == nil
	})
	if n == 0 && err == nil {
		err = fmt.Errorf("holdfast: batch of nothing: %w", ErrMalformed)
	}
	return n, errors.Join(unknown, err, wrong)
}

// decodeBatch reads a batch and its commands.
func decodeBatch(b []byte) (Command, error) {
	n, err := checkBatch(b)
	if err != nil {
		return nil, err
	}
	c := Batch{make([]Command, 0, n)}
	_ = parts(b, func(cmd []byte) bool {
		var one Command
		if one, err = Decode(cmd); err == nil {
			c.Commands = append(c.Commands, one)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// batch carries out a batch.
func (m *Machine) batch(by Process, batch []byte) Outcome {
	if _, err := checkBatch(batch); errors.Is(err, ErrUnsupported) {
		return Outcome{Code: CodeUnsupported}
	} else if err != nil {
		m.commands++
		return Outcome{Code: CodeInvalid}
	}
	m.outcomes = m.outcomes[:0]
	_ = parts(batch, func(cmd []byte) bool {
		o := Outcome{Code: CodeLater}
		if !m.busy() {
			o = m.one(by, cmd)
		}
		m.outcomes = append(m.outcomes, o)
		return true
	})
	return Outcome{Each: m.outcomes}
}

// appendEach appends the outcomes of a batch, packed.
func appendEach(b []byte, each []Outcome) []byte {
	for i := range each {
		value, data := each[i].Pack()
		size := protowire.SizeTag(1) + protowire.SizeVarint(value)
		if len(data) > 0 {
			size += protowire.SizeTag(2) + protowire.SizeBytes(len(data))
		}
		b = protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.BytesType), uint64(size))
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), value)
		if len(data) > 0 {
			b = appendBytes(b, 2, data)
		}
	}
	return b
}

// unpackPart reads one of the outcomes of a batch.
func unpackPart(b []byte) (Outcome, error) {
	var value uint64
	var data []byte
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			value = f.uint64()
		case 2:
			data = f.message()
		}
	}
	if f.err != nil {
		return Outcome{}, f.err
	}
	o, err := unpack(value, data, false)
	return o, err
}
