package fsm

// Forget says that a finished Once key is to be remembered no longer. The token is that of its
// record: of a later run it forgets nothing. CodeOK also when there is no such record.
type Forget struct {
	Name  string // see OnceName
	Token uint64
}

func (Forget) op() op { return opForget }

func (Forget) process() Process { return Process{} }

// AppendTo implements Command.
func (c Forget) AppendTo(b []byte) []byte {
	return appendUint(appendText(appendHeader(b, opForget), 1, c.Name), 2, c.Token)
}

func (c *Forget) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Name = f.text()
		case 2:
			c.Token = f.uint64()
		}
	}
	return f.err
}

func (c *Forget) command() Command { return *c }

func (m *Machine) forget(c *Forget) Outcome {
	if !isOnce(c.Name) || !validLock(c.Name) {
		return Outcome{Code: CodeInvalid}
	}
	if r, ok := m.keys.Get(&onceRecord{name: c.Name}); ok && r.token == c.Token {
		k, _ := m.classes.Get(r.keep)
		m.dropKey(r, &k)
		m.fileClass(r.keep, k)
	}
	return Outcome{}
}

// dropKey forgets a key of a class.
func (m *Machine) dropKey(r *onceRecord, k *class) {
	m.aged.Delete(r)
	m.keys.Delete(r)
	k.count--
}

// fileClass notes what has become of a class.
func (m *Machine) fileClass(keep uint64, k class) {
	if k.count == 0 {
		m.classes.Delete(keep)
	} else {
		m.classes.Set(keep, k)
	}
}
