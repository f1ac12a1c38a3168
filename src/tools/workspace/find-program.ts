/** Finds a program by its name: on the host's PATH, and never in the workspace, where agents write. */
import { constants } from 'node:fs'
import { access, realpath, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'
import { isInside } from './folder.ts'

/** The folders of a PATH that count: absolute ones, outside of the workspace. A relative one is where the agent is. */
export async function safePath(path: string, root: string): Promise<string[]> {
  const folders = path.split(delimiter).filter((folder) => isAbsolute(folder))
  const safe = await Promise.all(folders.map(async (folder) => !isInside(await realOf(folder), root)))
  return folders.filter((_, index) => safe[index])
}

/** The first program of that name in these folders, or nothing. */
export async function findProgram(name: string, folders: string[], root: string): Promise<string | undefined> {
  const file = process.platform === 'win32' ? `${name}.exe` : name // a .cmd would need a shell
  for (const folder of folders) {
    const candidate = join(folder, file)
    if ((await isProgram(candidate)) && !isInside(await realOf(candidate), root)) return candidate
  }
  return undefined
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

function realOf(path: string): Promise<string> {
  return realpath(path).catch(() => path)
}
