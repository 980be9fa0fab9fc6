// Package certmagiclock gives CertMagic the locks of a fleet: of several processes that share a
// storage one orders each certificate, and the others wait for it. Any certmagic.Storage keeps the
// data; its own locks are not used.
//
// CertMagic does not ask for the fencing token of a lock and is not told of its loss; it bears that
// two processes order the same certificate now and then. What a loss can do is an order too many.
// Before each attempt CertMagic renews the lock (RenewLockLease), and after that looks whether the
// certificate is there: one that has lost the lock takes it again there, or fails the attempt while
// another process has it. Where another caller of its own process has it, both attempts go on, as
// CertMagic renews by the name of the lock alone.
package certmagiclock
