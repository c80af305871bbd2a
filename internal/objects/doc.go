// Package objects reads objects that others have stored: in S3 or MinIO, in the NATS
// Object Store, or in files below a folder. It knows nothing of what is in them.
//
//  1. Read returns the whole content of one version of an object, or an error. No part of
//     a content is ever returned for all of it, and no content is mixed from two versions.
//  2. What goes wrong is one of the kinds below, or the storage could not be asked, which
//     another attempt may mend.
//  3. No name leads out of its bucket: not by its parts, nor by links in the storage.
//  4. Memory and time are bounded whatever an object claims to be: MaxSize bounds it as it
//     is stored and its content, MaxRatio what compression makes of it, and a storage that
//     sends nothing for a while is given up.
//  5. An object that comes in parts is stored once, in order, whoever sends parts at the same time:
//     each chunk is stored on the condition that it follows the one before.
package objects
