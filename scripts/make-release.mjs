/**
 * Makes what a release has, in .cache/release: both packages as npm publishes them, the bill of materials, the site, and
 * the hashes of all. It publishes nothing: docs/project/release.md says who does, and when.
 *
 *   npm run release
 */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { install, installLimitMs, run } from './checks.mjs'
import { root } from './files.mjs'
import { sbomOf } from './sbom.mjs'

const folder = join(root, '.cache/release')
const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const change = new RegExp(`^## ${version.replaceAll('.', '\\.')}`, 'm')
if (!change.test(readFileSync(join(root, 'CHANGELOG.md'), 'utf8')))
  throw new Error(`CHANGELOG.md has no heading "## ${version}": see docs/project/release.md`)

rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
for (const cwd of [root, join(root, 'packages/create-dramatis')])
  run('npm', ['pack', '--pack-destination', folder, '--loglevel=error'], { cwd, timeout: installLimitMs })
const tarball = join(folder, `${name}-${version}.tgz`)
const notices = run('tar', ['-xzOf', tarball, 'package/dist/host/THIRD-PARTY-NOTICES.txt'])
const stranger = mkdtempSync(join(tmpdir(), 'dramatis-sbom-'))
writeFileSync(join(stranger, 'package.json'), '{ "version": "0.0.0", "private": true }\n')
run('npm', [...install, '--package-lock-only', tarball], { cwd: stranger, timeout: installLimitMs })
writeFileSync(join(folder, 'sbom.cdx.json'), `${JSON.stringify(sbomOf(name, stranger, notices), null, 2)}\n`)
rmSync(stranger, { recursive: true })
writeFileSync(join(folder, 'THIRD-PARTY-NOTICES.txt'), notices)
run(process.execPath, [join(root, 'site/build.mjs')], { timeout: installLimitMs })
run('tar', ['-czf', join(folder, 'site.tgz'), '-C', join(root, 'site/.cache/dist'), '.'])
const hashes = readdirSync(folder).map(
  (file) =>
    `${createHash('sha256')
      .update(readFileSync(join(folder, file)))
      .digest('hex')}  ${file}`,
)
writeFileSync(join(folder, 'SHA256SUMS'), `${hashes.join('\n')}\n`)
console.log(`${relative(root, folder)}:\n${hashes.join('\n')}`)
