# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The code that turns a QEMU processor into an EPYC. It is written into unused space of the guest kernel's .text, and the
# kernel's own table of processor operations (pv_ops) is pointed at it. The original functions stay untouched and are
# called from here, so their exception-table entries keep working.
#
# The header is the interface with patch.py, which fills in the addresses and appends the three tables.

.intel_syntax noprefix
.text
header:
orig_cpuid:          .quad 0
orig_read_msr:       .quad 0
orig_write_msr:      .quad 0
orig_read_msr_safe:  .quad 0
orig_write_msr_safe: .quad 0
cpuid_table:         .quad 0
msr_list:            .quad 0
msr_slots:           .quad 0
                     .long cpuid - header
                     .long read_msr - header
                     .long write_msr - header
                     .long read_msr_safe - header
                     .long write_msr_safe - header
                     .long write_whole_msr - header
                     .long read_whole_msr_safe - header
                     .long write_whole_msr_safe - header

# void cpuid(u32 *eax, u32 *ebx, u32 *ecx, u32 *edx): leaf in *eax, subleaf in *ecx.
# Ask the original, then apply the first matching row of cpuid_table to the answer.
.balign 16
cpuid:
  endbr64
  push rbx
  push rbp
  push r12
  push r13
  push r14
  push r15
  sub rsp, 8
  mov r14, rdi
  mov r15, rsi
  mov rbx, rdx
  mov rbp, rcx
  mov r12d, [rdi]
  mov r13d, [rdx]
  call [rip + orig_cpuid]
  mov r8, [rip + cpuid_table]
1:
  mov eax, [r8]
  cmp eax, -1                   # end of the table
  je 4f
  cmp eax, r12d
  jne 3f
  mov eax, [r8 + 4]
  cmp eax, -1                   # any subleaf
  je 2f
  cmp eax, r13d
  jne 3f
2:
  mov eax, [r8 + 8]
  and [r14], eax
  mov eax, [r8 + 12]
  or [r14], eax
  mov eax, [r8 + 16]
  and [r15], eax
  mov eax, [r8 + 20]
  or [r15], eax
  mov eax, [r8 + 24]
  and [rbx], eax
  mov eax, [r8 + 28]
  or [rbx], eax
  mov eax, [r8 + 32]
  and [rbp], eax
  mov eax, [r8 + 36]
  or [rbp], eax
  jmp 4f
3:
  add r8, 40
  jmp 1b
4:
  add rsp, 8
  pop r15
  pop r14
  pop r13
  pop r12
  pop rbp
  pop rbx
  ret

# u64 read_msr(u32 msr)
.balign 16
read_msr:
  endbr64
  call find_slot
  test r11, r11
  jz 1f
  mov rax, [r11]
  ret
1:
  jmp [rip + orig_read_msr]

# u64 read_msr_safe(u32 msr, int *err)
.balign 16
read_msr_safe:
  endbr64
  call find_slot
  test r11, r11
  jz 1f
  mov rax, [r11]
  mov dword ptr [rsi], 0
  ret
1:
  jmp [rip + orig_read_msr_safe]

# int read_whole_msr_safe(u32 msr, u64 *value), since Linux 6.16
.balign 16
read_whole_msr_safe:
  endbr64
  call find_slot
  test r11, r11
  jz 1f
  mov rax, [r11]
  mov [rsi], rax
  xor eax, eax
  ret
1:
  jmp [rip + orig_read_msr_safe]

# void write_msr(u32 msr, u32 low, u32 high)
.balign 16
write_msr:
  endbr64
  call find_slot
  test r11, r11
  jnz store_halves
  jmp [rip + orig_write_msr]

# int write_msr_safe(u32 msr, u32 low, u32 high)
.balign 16
write_msr_safe:
  endbr64
  call find_slot
  test r11, r11
  jnz store_halves
  jmp [rip + orig_write_msr_safe]

# void write_whole_msr(u32 msr, u64 value), since Linux 6.16
.balign 16
write_whole_msr:
  endbr64
  call find_slot
  test r11, r11
  jnz store
  jmp [rip + orig_write_msr]

# int write_whole_msr_safe(u32 msr, u64 value), since Linux 6.16
.balign 16
write_whole_msr_safe:
  endbr64
  call find_slot
  test r11, r11
  jnz store
  jmp [rip + orig_write_msr_safe]

# Make one value of edx:esi.
store_halves:
  mov esi, esi
  shl rdx, 32
  or rsi, rdx
# Write rsi to the slot at r11 and return 0. Kernel text is read-only, so CR0.WP is lifted around the one store; an
# unchanged value is not stored, because every change of CR0 costs an emulated processor its TLB.
store:
  cmp rsi, [r11]
  je 1f
  pushfq
  cli
  mov r10, cr0
  mov rcx, r10
  btr rcx, 16
  mov cr0, rcx
  mov [r11], rsi
  mov cr0, r10
  popfq
1:
  xor eax, eax
  ret

# In: edi = register number. Out: r11 = address of this CPU's slot, or 0. Keeps rdi, rsi and rdx.
# The CPU number is in TSC_AUX, where Linux puts it for user space.
find_slot:
  mov r11, [rip + msr_list]
  xor r9d, r9d
1:
  mov r8d, [r11 + r9*4]
  cmp r8d, -1
  je 3f
  cmp r8d, edi
  je 2f
  inc r9d
  jmp 1b
2:
  push rdx
  rdtscp
  pop rdx
  and ecx, 0xfff
  shl ecx, 6                    # eight slots of eight bytes per CPU
  mov r11, [rip + msr_slots]
  add r11, rcx
  lea r11, [r11 + r9*8]
  ret
3:
  xor r11d, r11d
  ret
