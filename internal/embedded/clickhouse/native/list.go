package native

// SplitTypes splits "UInt8, Array(String)" at its own commas.
func SplitTypes(list string) ([]string, error) {
	_, types, err := splitType("(" + list + ")")
	if err == nil && len(types) == 1 && types[0] == "" {
		return nil, nil
	}
	return types, err
}
