package event

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// IdentitySum tells sets of identities apart: their number and their sum, modulo
// 2^128. The order in which identities are added does not matter, and the
// sum of two sets without a common identity is the sum of theirs. The
// zero value is that of the empty set.
type IdentitySum struct {
	Count  uint64
	Hi, Lo uint64 // the sum
}

// IdentitySumBytes is the length of an IdentitySum as AppendBinary writes it.
const IdentitySumBytes = 24

// Add adds an identity, given as two big-endian halves.
func (f *IdentitySum) Add(hi, lo uint64) {
	*f = f.Plus(IdentitySum{Count: 1, Hi: hi, Lo: lo})
}

// AddIdentity adds an identity.
func (f *IdentitySum) AddIdentity(id Identity) {
	f.Add(binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:]))
}

// Plus returns the sum of both sets.
func (f IdentitySum) Plus(o IdentitySum) IdentitySum {
	lo, carry := bits.Add64(f.Lo, o.Lo, 0)
	hi, _ := bits.Add64(f.Hi, o.Hi, carry)
	return IdentitySum{Count: f.Count + o.Count, Hi: hi, Lo: lo}
}

// AppendBinary appends the sum's 24 bytes.
func (f IdentitySum) AppendBinary(b []byte) ([]byte, error) {
	for _, n := range [...]uint64{f.Count, f.Hi, f.Lo} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary has written.
func (f *IdentitySum) UnmarshalBinary(b []byte) error {
	if len(b) != IdentitySumBytes {
		return fmt.Errorf("a sum has %d bytes, not %d", IdentitySumBytes, len(b))
	}
	f.Count, f.Hi, f.Lo = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
		binary.LittleEndian.Uint64(b[16:])
	return nil
}

// String returns the number and the sum, such as 1500-0f3c….
func (f IdentitySum) String() string { return fmt.Sprintf("%d-%016x%016x", f.Count, f.Hi, f.Lo) }

// MarshalText writes the sum as String does.
func (f IdentitySum) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (f *IdentitySum) UnmarshalText(text []byte) error {
	var read IdentitySum
	if _, err := fmt.Sscanf(string(text), "%d-%16x%16x", &read.Count, &read.Hi, &read.Lo); err != nil ||
		read.String() != string(text) {
		return fmt.Errorf("%.60q is no sum", text)
	}
	*f = read
	return nil
}
