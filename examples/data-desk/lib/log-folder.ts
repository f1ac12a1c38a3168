/**
 * A folder for the log of this process, named by its pid. A process that was killed leaves its folder behind, and the
 * next start takes it: the rename succeeds for one of several. So two starts at once have a log each.
 */
import { mkdir, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'

/** Returns a folder in `parent`: the one that a dead process has left there, or a new one. */
export async function takeLogFolder(parent: string): Promise<string> {
  await mkdir(parent, { recursive: true })
  const own = join(parent, String(process.pid))
  const names = await readdir(parent)
  if (names.includes(String(process.pid))) return own // of an earlier process with this pid
  for (const name of names)
    if (/^\d+$/.test(name) && !isAlive(Number(name)) && (await moves(parent, name, own))) return own
  return own
}

/** Resolves to false if another start was faster. */
async function moves(parent: string, name: string, own: string): Promise<boolean> {
  try {
    await rename(join(parent, name), own)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM' // it is somebody else's
  }
}
