package uploads

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
	"github.com/millrace-io/millrace/internal/userqueue"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// rows are those of jobs whose processor is a queue. It is for one feed.
type rows struct {
	feeder  *Feeder
	queue   string
	jobs    map[string]*fedJob // that may be fed, by group
	workers map[int32]peaks    // by job
}

// fedJob is a job as the feed reads it.
type fedJob struct {
	no      int32
	id      uuid.UUID
	link    uuid.UUID
	mapping json.RawMessage
	names   MemberNames
	images  bool  // each row has one
	allowed int32 // attempts of a row; 0: as the queue says
	claim   int32 // of a slice that begins; 0: none does
	live    int   // items that have not ended
}

// peaks are the most items that workers had at a time, since some time and in the time before: between two takes they
// may have none.
type peaks struct {
	now, before int
	since       time.Time
}

// see notes how many items workers have, and returns how many of them there are to reckon with.
func (p *peaks) see(started int, span time.Duration) int {
	if time.Since(p.since) > span {
		*p = peaks{0, p.now, time.Now()}
	}
	p.now = max(p.now, started)
	return max(p.now, p.before)
}

// GroupOf is the group of a job's items in its queue.
func GroupOf(job uuid.UUID) string { return userqueue.PrivateGroup + job.String() }

// Groups implements feed.Rows.
func (r *rows) Groups(b *pgx.Batch, add func(group string, most func(feed.Live) int)) {
	b.Queue(text("groups"), r.queue).Query(func(found pgx.Rows) error {
		r.jobs = map[string]*fedJob{}
		workers := map[int32]peaks{}
		for found.Next() {
			j := &fedJob{}
			var header []byte
			var s schema.Slice
			var age, service float64
			var most int32
			if err := found.Scan(&j.no, &j.id, &header, &j.mapping, &j.link, &j.images, &s.Items, &s.Ended, &age, &service, &most); err != nil {
				return err
			}
			if err := j.read(header); err != nil {
				return err
			}
			j.allowed = r.feeder.allowed(most)
			group := GroupOf(j.id)
			s.Age, s.Service = time.Duration(age*float64(time.Second)), time.Duration(service*float64(time.Millisecond))
			r.jobs[group], workers[j.no] = j, r.workers[j.no]
			add(group, func(live feed.Live) int {
				p := r.workers[j.no]
				s.Workers = p.see(live.Started, r.feeder.cfg.Pace.Target)
				r.workers[j.no], j.live = p, live.Items
				items, fresh := r.feeder.cfg.Pace.Next(s)
				if fresh {
					j.claim = int32(items)
				}
				return items
			})
		}
		r.workers = workers
		return found.Err()
	})
}

func (j *fedJob) read(header []byte) error {
	if header == nil {
		return nil
	}
	var of Job
	if err := json.Unmarshal(header, &of.Header); err != nil {
		return fmt.Errorf("read the header of the upload %s: %w", j.id, err)
	}
	j.names = Members(of)
	return nil
}

// allowed is how many attempts a row has; 0: as many as the queue says. The smaller of both bounds counts.
func (f *Feeder) allowed(ofQueue int32) int32 {
	if own := f.store.attempts.of(schema.Error); ofQueue == 0 || own < ofQueue {
		return own
	}
	return 0
}

// lookBeyond is how many rows are looked at behind those that there is room for: some of them wait for their time.
const lookBeyond = 1000

// setBackBy is by how much the clock of Postgres may be set back without notice.
const setBackBy = 10 * time.Second

// ahead is how many items of a job may be ahead of those of others that share its queue, in slices of the least size: so a
// job with few rows does not wait for all that a large one has there.
const ahead = 4

// Next implements feed.Rows.
func (r *rows) Next(b *pgx.Batch, group string, n int, add func(id string, it userqueue.NewItem) error) {
	j := r.jobs[group]
	longest := r.feeder.cfg.NotFoundWait*3/2 + setBackBy
	place, first := j.live, ahead*r.feeder.cfg.Pace.Min
	b.Queue(walking)
	b.Queue(text("next"), j.no, n, lookBeyond, longest.Seconds()).Query(func(found pgx.Rows) error {
		var row int32
		var attempts int16
		var input string
		_, err := pgx.ForEachRow(found, []any{&row, &attempts, &input}, func() error {
			payload, err := r.feeder.payload(j, row, attempts, input)
			if err != nil {
				return err
			}
			item := userqueue.EnqueueItem{Payload: payload}
			if place < first {
				item.Priority = 1
			}
			place++
			return add(rowID(j.no, row), userqueue.NewItem{EnqueueItem: item, Attempts: int32(attempts), Allowed: j.allowed})
		})
		return err
	})
	b.Queue(walked)
}

// Payload is what workers get of a row.
type Payload struct {
	JobID   string          `json:"job_id"`
	ItemID  string          `json:"item_id"`
	RowNo   int32           `json:"row_no"`
	Mapping json.RawMessage `json:"mapping,omitempty"`
	// Strategy is how often the row was tried before: one that was not found is to be looked for in another way.
	Strategy int16           `json:"strategy"`
	Input    json.RawMessage `json:"input,omitempty"`
	// InputLink is where the input is, where the payload has no room for it.
	InputLink string `json:"input_link,omitempty"`
	// ImageLink is where the image of the row is.
	ImageLink string `json:"image_link,omitempty"`
}

func (f *Feeder) payload(j *fedJob, row int32, attempts int16, input string) (json.RawMessage, error) {
	object, err := j.names.Object([]byte(input))
	if err != nil {
		return nil, fmt.Errorf("read row %d of the upload %s: %w", row, j.id, err)
	}
	id := j.id.String()
	p := Payload{JobID: id, ItemID: schema.ItemID(id, int64(row)), RowNo: row, Strategy: attempts, Input: object}
	if string(j.mapping) != "{}" && string(j.mapping) != "null" {
		p.Mapping = j.mapping
	}
	key := "?key=" + linkKey(j.link, row)
	if j.images {
		p.ImageLink = f.cfg.Base + "/uploads/" + id + "/images/" + strconv.Itoa(int(row)) + key
	}
	text, err := json.Marshal(p)
	if err != nil || len(text) <= userqueue.MaxPayload {
		return text, err
	}
	p.Input, p.InputLink = nil, f.cfg.Base+"/uploads/"+id+"/inputs/"+strconv.Itoa(int(row))+key
	return json.Marshal(p)
}

// linkKey is what a link to an input of a job has to have.
func linkKey(job uuid.UUID, row int32) string {
	mac := hmac.New(sha256.New, job[:])
	_, _ = mac.Write([]byte(strconv.Itoa(int(row)))) // it never fails
	return hex.EncodeToString(mac.Sum(nil))
}

func rowID(job, row int32) string { return fmt.Sprintf("%d %d", job, row) }

// Fed implements feed.Rows.
func (r *rows) Fed(ctx context.Context, t *queue.Tx, fed []feed.Fed) error {
	jobs, nos := make([]int32, len(fed)), make([]int32, len(fed))
	items, faults := make([]*int64, len(fed)), make([]*string, len(fed))
	claims := map[int32]int32{}
	for i, one := range fed {
		if _, err := fmt.Sscanf(one.ID, "%d %d", &jobs[i], &nos[i]); err != nil {
			return fmt.Errorf("read the name of a row: %w", err)
		}
		if items[i] = &fed[i].Item; one.Fault != "" {
			items[i], faults[i] = nil, &fed[i].Fault
		}
		claims[jobs[i]] = 0
	}
	for _, j := range r.jobs {
		if _, of := claims[j.no]; of {
			claims[j.no] = j.claim
		}
	}
	var of, claim []int32
	for no, n := range claims {
		of, claim = append(of, no), append(claim, n)
	}
	t.Batch.Queue("SELECT FROM millrace.upload WHERE no = ANY ($1) ORDER BY no FOR NO KEY UPDATE", of)
	var n int
	t.Batch.Queue(walking)
	t.Batch.Queue(text("fed"), jobs, nos, items, faults, of, claim).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	t.Batch.Queue(walked)
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if n < len(fed) {
		return queue.ErrAgain // a job was paused or cancelled meanwhile
	}
	return nil
}

// Input returns the input of a row that is PROCESSING to who has the link to it, and to those who may see its job. For
// all others there is none.
func (s *Store) Input(ctx context.Context, who Viewer, id uuid.UUID, row int32, key string) (json.RawMessage, error) {
	var link uuid.UUID
	var subject string
	var header, input []byte
	err := s.pool.QueryRow(ctx, `SELECT u.link_key, o.subject, u.header, r.input`+tables+`
		JOIN millrace.upload_item AS i ON i.job_no = u.no JOIN millrace.upload_row AS r ON r.job_no = u.no AND r.row_no = i.row_no
		WHERE u.id = $1 AND i.row_no = $2 AND i.status = 1 AND u.deleted_at IS NULL`, id, row).Scan(&link, &subject, &header, &input)
	if err := dbpool.Found(err, ErrNotFound, "read row %d of the upload %s", row, id); err != nil {
		return nil, err
	}
	if !who.All && who.Subject != subject && !hmac.Equal([]byte(key), []byte(linkKey(link, row))) {
		return nil, ErrNotFound
	}
	j := fedJob{id: id}
	if err := j.read(header); err != nil {
		return nil, err
	}
	return j.names.Object(input)
}

// Groups returns the groups of a user's uploads in a queue: those of its private items that the user may see.
func (s *Store) Groups(ctx context.Context, subject, processor string) ([]string, error) {
	rows, _ := s.pool.Query(ctx, `SELECT u.id`+tables+`WHERE o.subject = $1 AND u.processor = $2 AND u.deleted_at IS NULL`,
		subject, processor)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("look for uploads in the queue %s: %w", processor, err)
	}
	groups := make([]string, len(ids))
	for i, id := range ids {
		groups[i] = GroupOf(id)
	}
	return groups, nil
}
