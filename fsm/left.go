package fsm

// Left is what an Acquire that was answered with this code has left in the group: whether its
// session is open, and what became of its request, as Machine.Request says. RequestUnknown: a late
// duplicate may still be carried out. What it says of the session holds for a SetValue and a
// Withdraw, too, and what it says of the requests for a Withdraw.
func (c Code) Left() (open bool, request RequestState) {
	switch c {
	case CodeGranted:
		return true, RequestGranted
	case CodeQueued:
		return true, RequestWaiting
	case CodeOK, CodeFinished, CodeHeld, CodeLimitMismatch, CodeDeadlock, CodeDone,
		CodeTokensExhausted, CodeTooManyLocks, CodeTooManyWaiters, CodeTooManyHolders, CodeTooManyKeys, CodeValuesFull:
		return true, RequestFinished
	case CodeTooManyRequests, CodeStaleToken:
		return true, RequestUnknown
	case CodeSessionLost, CodeStaleIncarnation:
		return false, RequestSessionLost
	}
	return false, RequestUnknown
}
