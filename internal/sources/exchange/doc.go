// Package exchange reads and writes lists of sources as OPML, CSV and JSON lines. With each
// source it has the settings that people have set for its job: as columns and attributes that
// begin with job_, or as the member job of a JSON line.
//
// Of OPML it reads the outlines that have an xmlUrl, wherever they stand. encoding/xml
// resolves no entities but the five of XML; a document type is refused, and so is
// nesting beyond MaxDepth.
package exchange
