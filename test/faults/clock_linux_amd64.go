package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A process asks what time it is by calling functions that the kernel has put
// into its memory, the vDSO. Go does, and so do the C libraries within
// ClickHouse. The symbols by which they are found are made to lead to code
// that calls them and adds what the clock is ahead. The clock that measures
// durations is left alone, as it is when a machine's clock is set.

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
		err = c.install(pid)
	}
	if err = errors.Join(err, syscall.PtraceDetach(pid)); err == nil || gone(err) { // killed meanwhile, as the caller will see
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

// install puts the code into a stopped process.
func (c *clock) install(pid int) error {
	base, image, err := vdso(pid)
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err = memory.ReadAt(image, base); err == nil {
		c.where, err = lead(image)
	}
	if err == nil {
		_, err = memory.WriteAt(image, base)
	}
	if err != nil {
		memory.Close()
		return fmt.Errorf("change the vDSO: %w", err)
	}
	c.hands, c.where = memory, base+c.where
	return c.set()
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
	return 0, nil, errors.New("the kernel gives it no vDSO")
}

// lead changes a vDSO so that the symbols lead to code in the unused bytes at
// its end, and returns where this reads how many seconds the clock is ahead.
func lead(image []byte) (ahead int64, err error) {
	const room = 256
	end := len(image) - room
	if slices.ContainsFunc(image[end:], func(b byte) bool { return b != 0 }) {
		return 0, errors.New("it has no room")
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	table := file.Section(".dynsym").Offset // it is there: the symbols are its
	asm := assembler{image: image, ahead: end, at: end + 8}
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
		const size, value = 24, 8 // of a symbol, and where its value is; the first one is none
		binary.LittleEndian.PutUint64(image[int(table)+(i+1)*size+value:], uint64(begin))
		led++
	}
	if asm.at > len(image) || led < 3 {
		return 0, fmt.Errorf("%d functions of time in %d bytes", led, len(image))
	}
	return int64(end), nil
}

// assembler writes code into an image. It calls a function of the image with
// the caller's arguments, and adds the seconds at ahead to what it answers.
type assembler struct {
	image     []byte
	ahead, at int
}

func (a *assembler) put(code ...byte) { a.at += copy(a.image[a.at:], code) }

// to completes an instruction that names a place by its distance.
func (a *assembler) to(place int) {
	binary.LittleEndian.PutUint32(a.image[a.at:], uint32(place-a.at-4))
	a.at += 4
}

// call calls a function and keeps the two arguments.
func (a *assembler) call(function int) {
	a.put(0x57, 0x56, 0x48, 0x83, 0xEC, 0x08) // push rdi; push rsi; sub rsp, 8
	a.put(0xE8)                               // call function
	a.to(function)
	a.put(0x48, 0x83, 0xC4, 0x08, 0x5E, 0x5F) // add rsp, 8; pop rsi; pop rdi
}

// clockGettime is int clock_gettime(clockid_t, struct timespec *).
func (a *assembler) clockGettime(function int) {
	a.call(function)
	a.put(0x85, 0xC0, 0x75, 0x13)       // test eax, eax; jne end
	a.put(0x85, 0xFF, 0x74, 0x05)       // test edi, edi; je add: CLOCK_REALTIME
	a.put(0x83, 0xFF, 0x05, 0x75, 0x0A) // cmp edi, 5; jne end: CLOCK_REALTIME_COARSE
	a.put(0x48, 0x8B, 0x0D)             // add: mov rcx, [ahead]
	a.to(a.ahead)
	a.put(0x48, 0x01, 0x0E, 0xC3) // add [rsi], rcx; end: ret
}

// gettimeofday is int gettimeofday(struct timeval *, struct timezone *).
func (a *assembler) gettimeofday(function int) {
	a.call(function)
	a.put(0x85, 0xC0, 0x75, 0x0F)       // test eax, eax; jne end
	a.put(0x48, 0x85, 0xFF, 0x74, 0x0A) // test rdi, rdi; je end
	a.put(0x48, 0x8B, 0x0D)             // mov rcx, [ahead]
	a.to(a.ahead)
	a.put(0x48, 0x01, 0x0F, 0xC3) // add [rdi], rcx; end: ret
}

// time is time_t time(time_t *).
func (a *assembler) time(function int) {
	a.call(function)
	a.put(0x48, 0x03, 0x05) // add rax, [ahead]
	a.to(a.ahead)
	a.put(0x48, 0x85, 0xFF, 0x74, 0x03) // test rdi, rdi; je end
	a.put(0x48, 0x89, 0x07, 0xC3)       // mov [rdi], rax; end: ret
}
