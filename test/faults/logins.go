package main

import "github.com/millrace-io/millrace/schemas/stream"

// password is that of every role on NATS: what is broken here are not logins.
const password = "faults"

// passwords are those of each role.
func passwords() map[string]string {
	all := map[string]string{stream.RoleMillrace: password}
	for _, r := range stream.Roles() {
		if r.Name != stream.RoleLocal {
			all[r.Name] = password
		}
	}
	return all
}

// natsURLs are the servers, one by one, for Millrace itself.
func (c *cluster) natsURLs() (urls []string) {
	for _, addr := range c.natsAddrs {
		urls = append(urls, natsURL([]string{addr}, stream.RoleMillrace))
	}
	return urls
}
