package process

// wake has nothing to do: no signal stops a process here.
func (p *Process) wake() {}
