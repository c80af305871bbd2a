package event

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed event.schema.json
var schemaText []byte

// Schema returns the JSON Schema (2020-12) of an event in a pipeline of these
// stages, decoded. The caller owns the map.
func Schema(stages Stages) (map[string]any, error) {
	var schema map[string]any
	if err := json.Unmarshal(schemaText, &schema); err != nil {
		return nil, fmt.Errorf("read the event's schema: %w", err)
	}
	properties, _ := schema["properties"].(map[string]any)
	stage, ok := properties["stage"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("read the event's schema: it has no stage")
	}
	stage["enum"], stage["examples"] = stages.Names(), stages.Names()[:1]
	return schema, nil
}
