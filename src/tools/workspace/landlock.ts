/**
 * Runs a program so that it, and whatever it starts, can write in the folders alone that are named: by Landlock, which
 * Linux has since 5.13. Node cannot ask the kernel for that. Perl can, which nearly every Linux has, so it is the
 * program that starts, and the other one takes its place.
 *
 * Landlock is about contents and names of files. It does not keep a program from changing modes and times of files that
 * belong to the host's user, from reading, or from the network.
 */
import { execFile } from 'node:child_process'
import { findProgram } from './find-program.ts'

/** Number of the system call prctl. Those of Landlock are the same on all machines. */
const PRCTL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 157, arm64: 167, riscv64: 167 }

/** Files that a program may write although they are in no folder of its own. */
const DEVICES = ['/dev/null', '/dev/zero', '/dev/full']

/**
 * Arguments: the number of prctl, how many paths follow, these paths, then the program. Without a program it ends well
 * if the kernel can do it. The rights are all those of include/uapi/linux/landlock.h that change files or folders, as
 * far as the kernel knows them.
 */
const SCRIPT = `
my ($prctl, $count, @rest) = @ARGV;
my $version = syscall(444, 0, 0, 1);
$version >= 1 or die "no Landlock: $!\\n";
my $rights = $version < 2 ? 0x1ff2 : $version < 3 ? 0x3ff2 : 0x7ff2;
my $attributes = pack 'Q', $rights;
my $rules = syscall(444, $attributes, 8, 0);
for my $path (splice @rest, 0, $count) {
  open my $handle, '<', $path or die "$path: $!\\n";
  my $rule = pack 'Ql', -d $handle ? $rights : $rights & 0x4002, fileno $handle;
  syscall(445, $rules, 1, $rule, 0) == 0 or die "$path: $!\\n";
}
syscall($prctl + 0, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!\\n";
syscall(446, $rules, 0) == 0 or die "no Landlock: $!\\n";
exit 0 unless @rest;
exec { $rest[0] } @rest or die "$rest[0]: $!\\n";
`

/** Makes of a program and its arguments those that run it where only these folders can be written. */
export type Confine = (file: string, args: string[], folders: readonly string[]) => { file: string; args: string[] }

/** Perls that were tried, by their paths: true if the kernel did it for them. */
const tried = new Map<string, Promise<boolean>>()

/** Looks for perl in the folders of a PATH. Returns undefined where the system cannot do it. */
export async function landlock(path: string[], root: string): Promise<Confine | undefined> {
  const prctl = PRCTL[process.arch]
  const perl = process.platform === 'linux' ? await findProgram('perl', path, root) : undefined
  if (prctl === undefined || perl === undefined) return undefined
  const argumentsOf = (paths: readonly string[]) => ['-e', SCRIPT, '--', `${prctl}`, `${paths.length}`, ...paths]
  const works = tried.get(perl) ?? runsInSilence(perl, argumentsOf(DEVICES))
  tried.set(perl, works)
  if (!(await works)) return undefined
  return (file, args, folders) => ({ file: perl, args: [...argumentsOf([...DEVICES, ...folders]), file, ...args] })
}

/** A perl that prints something, such as that it lacks a locale, would print it with each command. */
function runsInSilence(file: string, args: string[]): Promise<boolean> {
  const options = { env: { LANG: 'C.UTF-8' }, timeout: 10_000 }
  return new Promise((resolve) => {
    execFile(file, args, options, (error, stdout, stderr) => resolve(error === null && stdout === '' && stderr === ''))
  })
}
