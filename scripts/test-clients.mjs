/**
 * Plays programs of others against a team: those of test/clients, which have a package and a lock file of their own, or
 * the large ones of test/clients/heavy.
 *
 *   node scripts/test-clients.mjs [--heavy] [part of a file's name ...]
 *
 * They need Node 22; on an older one Node 24 comes from npm.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './files.mjs'

const OLDEST = 22
const isHeavy = process.argv.includes('--heavy')
const from = join(root, 'test', 'clients', ...(isHeavy ? ['heavy'] : []))
const cwd = join(root, '.cache', isHeavy ? 'clis' : 'clients') // packages of others stay out of the sources
const run = (program, ...args) => {
  const { status } = spawnSync(program, args, { cwd, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

cpSync(from, cwd, { recursive: true, filter: (path) => !/(node_modules|clients.heavy)$/.test(path) || path === from })
// not `npm ci`: it refuses an optional package of the Inspector that no registry has
run('npm', 'install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error')
const parts = process.argv.slice(2).filter((each) => each !== '--heavy')
const files = readdirSync(cwd).filter(
  (name) => name.endsWith('.test.mjs') && (parts.length === 0 || parts.some((part) => name.includes(part))),
)
const isOld = Number(process.versions.node.split('.')[0]) < OLDEST
const node = isOld ? ['npx', '-y', '-p', 'node@24', 'node'] : [process.execPath]
run(...node, '--test', '--test-reporter=spec', '--test-timeout=120000', ...files)
