package reads

import "github.com/millrace-io/millrace/internal/httpapi"

// Notes say what about a request may not be as its caller has meant it. They are
// no errors: a source that has sent nothing yet may be watched.
type Notes []httpapi.FieldError
