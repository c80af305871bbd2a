package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// alertRules knows which metrics the rules read.
type alertRules struct{ reads map[string]bool }

// rulesFile is where the rules are, seen from the repository and from this folder.
func rulesFile() string {
	const path = "deploy/prometheus/rules.yml"
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return filepath.Join("../..", path)
}

var ruleWords = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)

func readAlertRules() (*alertRules, error) {
	text, err := os.ReadFile(rulesFile())
	if err != nil {
		return nil, fmt.Errorf("read the alert rules: %w", err)
	}
	var file struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read the alert rules: %w", err)
	}
	r := &alertRules{reads: map[string]bool{}}
	for _, g := range file.Groups {
		for _, rule := range g.Rules {
			for _, word := range ruleWords.FindAllString(rule.Expr, -1) {
				r.reads[word] = true
			}
		}
	}
	return r, nil
}

// keep adds the series of a scrape that rules read, with the labels of its target.
func (r *alertRules) keep(row scrape, text, target string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		name, labels, labelled := strings.Cut(line[:at], "{")
		if !r.reads[name] {
			continue
		}
		if labelled {
			row[name+"{"+target+","+strings.TrimSuffix(labels, "}")+"}"] = line[at+1:]
			continue
		}
		row[name+"{"+target+"}"] = line[at+1:]
	}
}
