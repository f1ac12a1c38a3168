/** A workspace with canaries around it, and links of all kinds in it that lead to them. */
import { execFileSync } from 'node:child_process'
import {
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import type { Test } from 'tap'

/** What no tool may ever show. */
export const SECRET = 'canary-7f3a91'

export interface Place {
  /** The workspace's folder. */
  root: string
  /** A folder beside it, with `secret.txt` and `deep/secret.txt`. */
  outside: string
  /** The files that have the secret. */
  canaries: string[]
  /** All that lies around the workspace, as text: equal before and after if nothing was written there. */
  around(): string
  /** All regular files in the workspace, relative to it. */
  files(): string[]
}

/** A new one, removed when the test ends. */
export function makePlace(t: Test): Place {
  const made = realpathSync(mkdtempSync(join(tmpdir(), 'dramatis-workspace-')))
  t.teardown(() => rmSync(made, { recursive: true, force: true }))
  const base = join(made, 'a/b/c/d/e/f/g/h/i') // as deep as the paths climb, so that a fault hits nothing of the machine
  const root = join(base, 'work')
  const outside = join(base, 'outside')
  mkdirSync(join(root, 'src'), { recursive: true })
  mkdirSync(join(outside, 'deep'), { recursive: true })
  const canaries = [join(base, 'secret.txt'), join(outside, 'secret.txt'), join(outside, 'deep', 'secret.txt')]
  for (const file of canaries) writeFileSync(file, SECRET)
  writeFileSync(join(root, 'src', 'main.py'), 'print(1)\n')
  const around = () => describe(made, root)
  return { root, outside, canaries, around, files: () => filesBelow(root).map((file) => relative(root, file)) }
}

/** Ways out of the workspace by links, relative to it. */
export interface Ways {
  /** To the canaries and what is around them. */
  toCanaries: string[]
  /** To files of the machine: for reading alone, as a fault that a test finds must not harm it. */
  toMachine: string[]
}

/** Makes links of all kinds in the workspace that lead out of it, and what is no regular file. */
export function plantLinks({ root, outside }: Place): Ways {
  const links: [name: string, target: string][] = [
    ['to-file', join(outside, 'secret.txt')],
    ['to-folder', outside],
    ['to-folder-relative', '../outside'],
    ['to-above', '..'],
    ['to-nothing', join(outside, 'made.txt')],
    ['to-nothing-relative', '../outside/made.txt'],
    ['to-itself', 'to-itself'],
    ['round', 'about'],
    ['about', 'round'],
    ['first', 'second'],
    ['second', 'src/third'],
    ['src/third', '../to-folder'],
    ['src/up', '../../outside'],
    ['src/inside', 'main.py'],
  ]
  const machine: [name: string, target: string][] = [
    ['to-machine', '/'],
    ['to-etc', '/etc'],
    ['to-proc', '/proc/self'],
    ['to-zero', '/dev/zero'],
  ]
  for (const [name, target] of [...links, ...machine]) symlinkSync(target, join(root, name))
  linkSync(join(outside, 'secret.txt'), join(root, 'hard'))
  execFileSync('mkfifo', [join(root, 'fifo')])
  const rests = [
    '',
    '/',
    '/secret.txt',
    '/deep/secret.txt',
    '/deep/../secret.txt',
    '/outside/secret.txt',
    '/new/made.txt',
  ]
  return {
    toCanaries: [...links.flatMap(([name]) => rests.map((rest) => name + rest)), 'fifo'],
    toMachine: [
      ...machine.map(([name]) => name),
      ...['environ', 'cwd/package.json', 'root/etc/passwd', 'fd/0', 'maps'].map((name) => `to-proc/${name}`),
      `to-machine${outside}/secret.txt`,
      'to-machine/etc/passwd',
      'to-etc/passwd',
      'hard',
    ],
  }
}

/** All that is below a folder, with what is in the files; not the workspace. */
function describe(folder: string, root: string): string {
  const paths = readdirSync(folder)
    .sort()
    .map((name) => join(folder, name))
  return paths
    .filter((path) => path !== root)
    .map((path) => (lstatSync(path).isDirectory() ? `${path}\n${describe(path, root)}` : `${path} ${textOf(path)}`))
    .join('\n')
}

function textOf(path: string): string {
  return lstatSync(path).isFile() ? readFileSync(path, 'utf8') : 'no file'
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(path)
    return entry.isFile() ? [path] : []
  })
}
