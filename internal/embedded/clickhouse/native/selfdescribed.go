package native

import (
	"fmt"
	"slices"
)

// Versions in front of a column of Dynamic and of JSON: how it is written. The
// engine has more, for its own files.
const (
	dynamicV1 = 1
	jsonV1    = 0
	jsonText  = 1
	v2        = 2
	flattened = 3
)

// sharedVariant stands among the types of a Dynamic for values whose type has no
// place of its own, which are text then.
const sharedVariant = "SharedVariant"

var (
	texts     = &layout{shape: text}
	sharedMap = &layout{shape: array, of: []*layout{{shape: tuple, of: []*layout{texts, texts}}}}
)

// variantPrefix copies the mode of a variant: which types its values have stands
// in front of them, a byte a value.
func (c *copier) variantPrefix() error {
	mode, err := c.uint64()
	if err == nil && mode != 0 {
		err = fmt.Errorf("%w: Variant in mode %d", ErrType, mode)
	}
	return err
}

// dynamicPrefix copies the types of a Dynamic, and completes l by them.
func (c *copier) dynamicPrefix(l *layout) (err error) {
	if l.version, err = c.uint64(); err != nil {
		return err
	}
	names, err := c.members(l.version, dynamicV1, "Dynamic", "type")
	if err != nil {
		return err
	}
	if l.version != flattened {
		names = append(names, sharedVariant)
		slices.Sort(names)
		if len(names) > maxVariants {
			return fmt.Errorf("%w: Dynamic of %d types", ErrProtocol, len(names))
		}
		if err := c.variantPrefix(); err != nil {
			return err
		}
	}
	for _, name := range names {
		of := texts
		if name != sharedVariant {
			if of, err = parseType(name, l.depth+1); err != nil {
				return err
			}
		}
		l.of = append(l.of, of)
		if err := c.prefix(of); err != nil {
			return err
		}
	}
	return nil
}

// objectPrefix copies the paths of JSON objects, and completes l by them.
func (c *copier) objectPrefix(l *layout) (err error) {
	if l.version, err = c.uint64(); err != nil {
		return err
	}
	if l.version == jsonText {
		return nil
	}
	paths, err := c.members(l.version, jsonV1, "JSON", "path")
	if err != nil {
		return err
	}
	for range paths {
		l.of = append(l.of, &layout{shape: dynamic, depth: l.depth + 1})
	}
	for _, of := range l.of {
		if err := c.prefix(of); err != nil {
			return err
		}
	}
	if l.version != flattened {
		l.of = append(l.of, sharedMap)
	}
	return nil
}

// members copies the names of the types of a Dynamic, or of the paths of a JSON, in the given version of its format.
func (c *copier) members(version, v1 uint64, kind, member string) ([]string, error) {
	switch version {
	case v1:
		if _, err := c.number("most "+member+"s of "+kind, maxNamed); err != nil {
			return nil, err
		}
	case v2, flattened:
	default:
		return nil, fmt.Errorf("%w: %s in version %d", ErrType, kind, version)
	}
	return c.names(member + " of " + kind)
}

// names copies a counted list of names.
func (c *copier) names(what string) ([]string, error) {
	count, err := c.number("number of names", maxNamed)
	if err != nil {
		return nil, err
	}
	var names []string
	for range count {
		name, err := c.name(what)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func (c *copier) objects(l *layout, rows uint64) error {
	if l.version == jsonText {
		return c.texts(rows)
	}
	for _, of := range l.of {
		if err := c.values(of, rows); err != nil {
			return err
		}
	}
	return nil
}

// variants copies which of the types each value has, in one byte or, for a
// flattened Dynamic, in as many as it takes; then the values of each type.
func (c *copier) variants(l *layout, rows uint64) error {
	width := 1
	if l.shape == dynamic && l.version == flattened {
		for ; width < 8 && len(l.of) >= 1<<(8*width); width *= 2 {
		}
	}
	counts, err := c.discriminators(rows, width, len(l.of))
	if err != nil {
		return err
	}
	for i, of := range l.of {
		if err := c.values(of, counts[i]); err != nil {
			return err
		}
	}
	return nil
}

// discriminators copies so many numbers of types and counts each. The highest of
// all, or the one behind those of the types, is null.
func (c *copier) discriminators(rows uint64, width, types int) ([]uint64, error) {
	counts := make([]uint64, types)
	null := uint64(1)<<(8*width-1)*2 - 1
	for rows > 0 {
		if _, err := c.Peek(width); err != nil {
			return nil, noEOF(err)
		}
		window, _ := c.Peek(int(min(rows, uint64(c.Buffered()/width))) * width)
		for i := 0; i < len(window); i += width {
			var which uint64
			for j := range width {
				which |= uint64(window[i+j]) << (8 * j)
			}
			switch {
			case which < uint64(types):
				counts[which]++
			case which != uint64(types) && which != null:
				return nil, fmt.Errorf("%w: type %d of %d", ErrProtocol, which, types)
			}
		}
		if err := c.write(window); err != nil {
			return nil, err
		}
		_, _ = c.Discard(len(window))
		rows -= uint64(len(window) / width)
	}
	return counts, nil
}
