package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A process asks what time it is by calling functions that the kernel has put
// into its memory, the vDSO. Go does, and so do C libraries, that of Postgres
// and those within ClickHouse. Before its first instruction, the symbols by
// which they are found are made to lead to code that calls them and adds what
// the clock is ahead. In a process that runs, which has looked them up, their
// first instructions are, and that code asks the kernel itself. The clock that
// measures durations is left alone, as it is when a machine's clock is set.

// startMoved starts a process, stops it before its first instruction, and moves
// its clock. The caller is bound to its thread, for only this one may let the
// process go on.
func (c *clock) startMoved(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	err := awaitStop(pid)
	if err == nil {
		if c.hands, c.where, err = install(pid, bySymbol); err == nil {
			err = c.set()
		}
	}
	if err = errors.Join(err, syscall.PtraceDetach(pid)); err == nil || gone(err) {
		// killed meanwhile, as the caller will see
		return nil
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return fmt.Errorf("give %s a clock: %w", cmd.Path, err)
}

func awaitStop(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return syscall.ESRCH
		}
	}
}

// gone tells whether an error says that the process has ended.
func gone(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone)
}

// set writes what the clock is ahead to the process.
func (c *clock) set() error {
	seconds := binary.LittleEndian.AppendUint64(nil, uint64(c.ahead/time.Second))
	if n, err := c.hands.WriteAt(seconds, c.where); n == 0 {
		return errors.Join(syscall.ESRCH, err) // the memory is gone, and with it the process
	}
	return nil
}

// install puts the code into a process, unless it is there, and returns the
// memory of the process and where in it the seconds are that its clock is ahead.
func install(pid int, by redirection) (memory *os.File, where int64, err error) {
	base, image, err := vdso(pid)
	if err != nil {
		return nil, 0, err
	}
	if memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return nil, 0, err
	}
	if _, err = memory.ReadAt(image, base); err == nil && !(by == byEntry && hasCode(image)) {
		err = change(memory, base, image, by)
	}
	if err != nil {
		memory.Close()
		return nil, 0, fmt.Errorf("change the vDSO: %w", err)
	}
	return memory, base + int64(len(image)-room), nil
}

// change writes the code and what leads to it. The process may be running, so
// the code comes first, and each way to it by the write of a word.
func change(memory io.WriterAt, base int64, image []byte, by redirection) error {
	const word = 8
	was := slices.Clone(image)
	if err := lead(image, by); err != nil {
		return err
	}
	end := len(image) - room
	_, err := memory.WriteAt(image[end:], base+int64(end))
	for at := 0; at < end && err == nil; at += word {
		if now := image[at : at+word]; !bytes.Equal(now, was[at:at+word]) {
			_, err = memory.WriteAt(now, base+int64(at))
		}
	}
	return err
}

// vdso returns where the kernel has put its functions, and room for a copy.
func vdso(pid int) (base int64, image []byte, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		var end int64
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &base, &end); err != nil {
			return 0, nil, fmt.Errorf("%q: %w", line, err)
		}
		return base, make([]byte, end-base), nil
	}
	return 0, nil, errNoVDSO
}

// errNoVDSO is also the error of a process that has ended.
var errNoVDSO = errors.New("the kernel gives it no vDSO")

// redirection is how the functions are led to other code.
type redirection bool

const (
	bySymbol redirection = false // before a program looks for them
	byEntry  redirection = true  // also afterwards; slower
)

// room is what is taken of the unused bytes at the end of a vDSO: first the
// seconds that the clock is ahead, then code.
const room = 256

func hasCode(image []byte) bool {
	return slices.ContainsFunc(image[len(image)-room:], func(b byte) bool { return b != 0 })
}

// lead changes a vDSO so that its functions lead to code at its end.
func lead(image []byte, by redirection) error {
	end := len(image) - room
	if hasCode(image) {
		return errors.New("it has no room")
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	table := file.Section(".dynsym").Offset // it is there: the symbols are its
	asm := assembler{image: image, ahead: end, at: end + 8, ask: by == byEntry}
	led := 0
	for i, s := range symbols {
		begin := asm.at
		switch strings.TrimPrefix(s.Name, "__vdso_") {
		case "clock_gettime":
			asm.clockGettime(int(s.Value))
		case "gettimeofday":
			asm.gettimeofday(int(s.Value))
		case "time":
			asm.time(int(s.Value))
		default:
			continue
		}
		led++
		if by == byEntry {
			asm.jump(int(s.Value), begin)
			continue
		}
		const size, value = 24, 8 // of a symbol, and where its value is; the first one is none
		binary.LittleEndian.PutUint64(image[int(table)+(i+1)*size+value:], uint64(begin))
	}
	if asm.at > len(image) || led < 3 {
		return fmt.Errorf("%d functions of time in %d bytes", led, len(image))
	}
	return nil
}

// assembler writes code into an image. It calls a function of the image, or
// asks the kernel, with the caller's arguments, and adds the seconds at ahead to
// what it answers.
type assembler struct {
	image     []byte
	ahead, at int
	ask       bool // the kernel
}

func (a *assembler) put(code ...byte) { a.at += copy(a.image[a.at:], code) }

// to completes an instruction that names a place by its distance.
func (a *assembler) to(place int) {
	binary.LittleEndian.PutUint32(a.image[a.at:], uint32(place-a.at-4))
	a.at += 4
}

// jump begins a function with a jump to another place.
func (a *assembler) jump(function, place int) {
	entry := assembler{image: a.image, at: function}
	entry.put(0xE9) // jmp place
	entry.to(place)
}

// call calls a function, or the kernel by a number, and keeps the two arguments.
func (a *assembler) call(function int, number byte) {
	if a.ask {
		a.put(0xB8, number, 0, 0, 0, 0x0F, 0x05) // mov eax, number; syscall
		return
	}
	a.put(0x57, 0x56, 0x48, 0x83, 0xEC, 0x08) // push rdi; push rsi; sub rsp, 8
	a.put(0xE8)                               // call function
	a.to(function)
	a.put(0x48, 0x83, 0xC4, 0x08, 0x5E, 0x5F) // add rsp, 8; pop rsi; pop rdi
}

// clockGettime is int clock_gettime(clockid_t, struct timespec *).
func (a *assembler) clockGettime(function int) {
	a.call(function, syscall.SYS_CLOCK_GETTIME)
	a.put(0x85, 0xC0, 0x75, 0x13)       // test eax, eax; jne end
	a.put(0x85, 0xFF, 0x74, 0x05)       // test edi, edi; je add: CLOCK_REALTIME
	a.put(0x83, 0xFF, 0x05, 0x75, 0x0A) // cmp edi, 5; jne end: CLOCK_REALTIME_COARSE
	a.put(0x48, 0x8B, 0x0D)             // add: mov rcx, [ahead]
	a.to(a.ahead)
	a.put(0x48, 0x01, 0x0E, 0xC3) // add [rsi], rcx; end: ret
}

// gettimeofday is int gettimeofday(struct timeval *, struct timezone *).
func (a *assembler) gettimeofday(function int) {
	a.call(function, syscall.SYS_GETTIMEOFDAY)
	a.put(0x85, 0xC0, 0x75, 0x0F)       // test eax, eax; jne end
	a.put(0x48, 0x85, 0xFF, 0x74, 0x0A) // test rdi, rdi; je end
	a.put(0x48, 0x8B, 0x0D)             // mov rcx, [ahead]
	a.to(a.ahead)
	a.put(0x48, 0x01, 0x0F, 0xC3) // add [rdi], rcx; end: ret
}

// time is time_t time(time_t *).
func (a *assembler) time(function int) {
	a.call(function, syscall.SYS_TIME)
	a.put(0x48, 0x03, 0x05) // add rax, [ahead]
	a.to(a.ahead)
	a.put(0x48, 0x85, 0xFF, 0x74, 0x03) // test rdi, rdi; je end
	a.put(0x48, 0x89, 0x07, 0xC3)       // mov [rdi], rax; end: ret
}
