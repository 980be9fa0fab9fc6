package objectfence

import (
	"bytes"
	"context"
	"crypto/rand"
)

// StampSize is how many bytes Stamped puts before an object's content: a line of text.
const StampSize = len(stampHead) + stampRandom + 1

const (
	stampHead   = "holdfast-stamp "
	stampRandom = 26 // characters of rand.Text, which gives as many at least
)

// Stamped is a bucket whose ETag is a digest of the content, as those of S3 are, made fit for New.
// There two writes of the same bytes have one ETag, whatever their metadata: a former holder that
// has looked at the first of them could overwrite the second, which has the mark of its successor.
// So each write gets a line of its own before the content, and Get takes it off; those who read
// without this package skip the first StampSize bytes. An object without the line is read as it is.
func Stamped(b Bucket) Bucket { return stamped{b} }

type stamped struct{ Bucket }

func (s stamped) Get(ctx context.Context, key string) ([]byte, Info, error) {
	body, info, err := s.Bucket.Get(ctx, key)
	if err == nil && len(body) >= StampSize && bytes.HasPrefix(body, []byte(stampHead)) && body[StampSize-1] == '\n' {
		body = body[StampSize:]
	}
	return body, info, err
}

func (s stamped) Put(ctx context.Context, key string, body []byte, metadata map[string]string, version string) error {
	line := stampHead + rand.Text()[:stampRandom] + "\n"
	return s.Bucket.Put(ctx, key, append([]byte(line), body...), metadata, version)
}
