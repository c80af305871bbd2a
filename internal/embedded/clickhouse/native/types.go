package native

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrType is a column type whose extent in a block is not known here.
var ErrType = fmt.Errorf("%w: type is not supported in inserts", ErrProtocol)

// Limits of types: how deep they nest, of how many one is a variant, and how many
// paths or types a column itself names.
const (
	maxDepth    = 32
	maxVariants = 255
	maxNamed    = 100_000
)

type shape int

const (
	fixed   shape = iota // size bytes a value
	text                 // a length and as many bytes a value
	array                // offsets, then the elements
	null                 // a mask, then the values
	tuple                // each element's column in turn
	lowCar               // a dictionary and indexes
	variant              // which of its types each value has, then the values of each type
	dynamic              // a variant whose types stand in front of the column
	object               // JSON: its paths stand in front of the column
)

// layout is how a type's values lie in a block: what it takes to find their end.
// One that has dynamic or object in it belongs to a single column of a block,
// which completes it.
type layout struct {
	shape shape
	size  int
	of    []*layout
	depth int // of dynamic and object

	version uint64 // of dynamic and object: how they are written
}

var sizes = map[string]int{
	"UInt8": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8, "UInt128": 16, "UInt256": 32,
	"Int8": 1, "Int16": 2, "Int32": 4, "Int64": 8, "Int128": 16, "Int256": 32,
	"Float32": 4, "Float64": 8, "BFloat16": 2, "Bool": 1, "UUID": 16, "IPv4": 4, "IPv6": 16,
	"Date": 2, "Date32": 4, "DateTime": 4, "DateTime32": 4, "DateTime64": 8, "Time": 4, "Time64": 8,
	"Enum8": 1, "Enum16": 2, "Nothing": 1, "Decimal32": 4, "Decimal64": 8, "Decimal128": 16, "Decimal256": 32,
}

var (
	float64s = &layout{shape: fixed, size: 8}
	point    = &layout{shape: tuple, of: []*layout{float64s, float64s}}
	ring     = &layout{shape: array, of: []*layout{point}}
	polygon  = &layout{shape: array, of: []*layout{ring}}
	geo      = map[string]*layout{
		"Point": point, "Ring": ring, "LineString": ring, "Polygon": polygon, "MultiLineString": polygon,
		"MultiPolygon": multiPolygon,
		"Geometry":     {shape: variant, of: []*layout{ring, polygon, multiPolygon, point, polygon, ring}},
	}
	multiPolygon = &layout{shape: array, of: []*layout{polygon}}
)

// parseType reads a type as it is written in a block's header.
func parseType(name string, depth int) (*layout, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: nested too deep", ErrType)
	}
	base, args, err := splitType(name)
	if err != nil {
		return nil, err
	}
	if size, ok := sizes[base]; ok {
		return &layout{shape: fixed, size: size}, nil
	}
	if l, ok := geo[base]; ok {
		return l, nil
	}
	if strings.HasPrefix(base, "Interval") {
		return float64s, nil
	}
	switch base {
	case "String":
		return &layout{shape: text}, nil
	case "JSON", "Object":
		return jsonObject(args, depth)
	case "Dynamic":
		return &layout{shape: dynamic, depth: depth}, nil
	case "FixedString":
		return fixedString(name, args)
	case "Decimal":
		return decimal(name, args)
	}
	return compound(name, base, args, depth)
}

func compound(name, base string, args []string, depth int) (*layout, error) {
	l := &layout{}
	count := 1
	switch base {
	case "Array":
		l.shape = array
	case "Nullable":
		l.shape = null
	case "LowCardinality":
		l.shape = lowCar
	case "SimpleAggregateFunction":
		if len(args) != 2 {
			return nil, fmt.Errorf("%w: %s", ErrType, name)
		}
		return parseType(args[1], depth+1)
	case "Tuple":
		l.shape, count = tuple, -1
	case "Variant":
		l.shape, count = variant, -1
	case "Map":
		l.shape, count = tuple, 2
	case "Nested":
		l.shape, count = tuple, -1
	default:
		return nil, fmt.Errorf("%w: %s", ErrType, name)
	}
	if len(args) == 0 || count > 0 && len(args) != count || base == "Variant" && len(args) > maxVariants {
		return nil, fmt.Errorf("%w: %s", ErrType, name)
	}
	for _, arg := range args {
		if base == "Tuple" || base == "Nested" {
			arg = elementType(arg)
		}
		of, err := parseType(arg, depth+1)
		if err != nil {
			return nil, err
		}
		l.of = append(l.of, of)
	}
	if base == "Map" || base == "Nested" {
		l = &layout{shape: array, of: []*layout{l}}
	}
	return l, nil
}

// jsonObject reads the arguments of JSON: limits, paths that are skipped, and
// paths with types, whose columns are ordered by path.
func jsonObject(args []string, depth int) (*layout, error) {
	types := map[string]*layout{}
	for _, arg := range args {
		if strings.HasPrefix(arg, "SKIP ") || strings.HasPrefix(arg, "max_dynamic_") || strings.HasPrefix(arg, "'") {
			continue
		}
		kind := elementType(arg)
		of, err := parseType(kind, depth+1)
		if err != nil {
			return nil, err
		}
		types[strings.Trim(strings.TrimSpace(strings.TrimSuffix(arg, kind)), "`")] = of
	}
	l := &layout{shape: object, depth: depth}
	for _, path := range slices.Sorted(maps.Keys(types)) {
		l.of = append(l.of, types[path])
	}
	return l, nil
}

func fixedString(name string, args []string) (*layout, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%w: %s", ErrType, name)
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > 1<<20 {
		return nil, fmt.Errorf("%w: %s", ErrType, name)
	}
	return &layout{shape: fixed, size: n}, nil
}

func decimal(name string, args []string) (*layout, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrType, name)
	}
	precision, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrType, name)
	}
	l := &layout{shape: fixed, size: 32}
	switch {
	case precision <= 9:
		l.size = 4
	case precision <= 18:
		l.size = 8
	case precision <= 38:
		l.size = 16
	}
	return l, nil
}

// elementType drops the name of a tuple's element: "a UInt8", "`a b` UInt8".
func elementType(arg string) string {
	if strings.HasPrefix(arg, "`") {
		for i := 1; i < len(arg); i++ {
			switch arg[i] {
			case '\\':
				i++
			case '`':
				return strings.TrimSpace(arg[i+1:])
			}
		}
		return arg
	}
	if i := strings.IndexAny(arg, " ("); i > 0 && arg[i] == ' ' {
		return arg[i+1:]
	}
	return arg
}

// splitType splits "Base(arg, arg)" at its own commas.
func splitType(name string) (base string, args []string, err error) {
	name = strings.TrimSpace(name)
	open := strings.IndexByte(name, '(')
	if open < 0 {
		return name, nil, nil
	}
	if !strings.HasSuffix(name, ")") {
		return "", nil, fmt.Errorf("%w: %s", ErrType, name)
	}
	base, inner := name[:open], name[open+1:len(name)-1]
	depth, start := 0, 0
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; c {
		case '(':
			depth++
		case ')':
			depth--
		case '\'', '`', '"':
			for i++; i < len(inner) && inner[i] != c; i++ {
				if inner[i] == '\\' {
					i++
				}
			}
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(inner[start:i]))
				start = i + 1
			}
		}
	}
	return base, append(args, strings.TrimSpace(inner[start:])), nil
}
