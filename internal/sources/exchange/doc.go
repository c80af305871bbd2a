// Package exchange reads and writes lists of sources as OPML, CSV and JSON lines.
//
// Of OPML it reads the outlines that have an xmlUrl, wherever they stand. encoding/xml
// resolves no entities but the five of XML; a document type is refused, and so is
// nesting beyond MaxDepth.
package exchange
