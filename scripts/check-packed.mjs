/**
 * Packs the package and uses it as a stranger would: installed in an empty folder, from JavaScript, from the command
 * line and from strict TypeScript. The last line is `N passed, N failed`.
 */
import { cpSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { checkTemplates } from './check-templates.mjs'
import { check, counts, env, expect, install, installLimitMs, run as runIn, sumUp } from './checks.mjs'
import { filesBelow, root } from './files.mjs'
import { sbomOf } from './sbom.mjs'

const home = mkdtempSync(join(tmpdir(), 'dramatis-packed-'))
const user = join(home, 'user')
const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

mkdirSync(user)
writeFileSync(join(user, 'package.json'), '{ "version": "0.0.0", "private": true, "type": "module" }\n')
cpSync(join(root, 'test/packed'), user, { recursive: true })

// Next gives a page a minute to be made, and takes a process for each core: too little and too many on a busy machine
const unhurriedNext = `import shown from './shown.config.js'
export default { ...shown, staticPageGenerationTimeout: 600, experimental: { cpus: 1 } }
`
/** Packages that only some of the built-in tools need. */
const toolPackages = [
  'mathjs',
  'csv-parse',
  'csv-stringify',
  'quickjs-wasi',
  '@mozilla/readability',
  'linkedom',
  'parse5',
].map((name) => `${name}@${manifest.peerDependencies[name]}`)
await check('packs', () => {
  run('npm', ['pack', '--pack-destination', home], { cwd: root, timeout: installLimitMs })
})
await check('installs from the tarball', () => {
  const tarball = readdirSync(home).find((name) => name.endsWith('.tgz'))
  run('npm', [...install, join(home, tarball)], { timeout: installLimitMs })
})
await check(
  'the bill of materials has what is installed and what is bundled, each with its version and licence',
  () => {
    const notices = readFileSync(join(user, 'node_modules/dramatis/dist/host/THIRD-PARTY-NOTICES.txt'), 'utf8')
    const { metadata, components } = sbomOf('dramatis', user, notices)
    expect(metadata.component.purl, `pkg:npm/dramatis@${manifest.version}`)
    const urls = components.map(({ purl }) => purl)
    if (new Set(urls).size !== urls.length) throw new Error(`twice: ${urls}`)
    const wanted = Object.keys(manifest.dependencies).concat('openai', 'hono', 'preact', 'marked', 'gpt-tokenizer')
    for (const name of wanted) expect(urls.join(' '), `pkg:npm/${name.replace('@', '%40')}@`)
    const bare = components.filter(({ version, licenses }) => !version || !licenses?.length)
    if (bare.length > 0) throw new Error(`without a licence: ${bare.map(({ name }) => name)}`)
    if (/tarballs?\/|\.tgz"/.test(JSON.stringify(components))) throw new Error('it names files of a registry')
    return `${urls.length} packages`
  },
)
await check('all that was installed takes at most 45 MB', () => {
  const megabytes = bytesBelow(join(user, 'node_modules')) / 1e6
  if (megabytes > 45) throw new Error(`${megabytes.toFixed(1)} MB`)
  return `${megabytes.toFixed(1)} MB`
})
await check('a JavaScript team answers', () => {
  expect(node('hello.js'), 'Hello, world')
})
await check('a model at an address answers, through the client that is bundled, whose licence is there', () => {
  const said = node('model.js')
  expect(said, 'chat: Hello, world\nresponses: Hello, world\n')
  expect(said, 'does not accept the key (401): no such key.')
  const notices = readFileSync(join(user, 'node_modules/dramatis/dist/host/THIRD-PARTY-NOTICES.txt'), 'utf8')
  expect(notices, `openai ${lock.packages['node_modules/openai'].version} (Apache-2.0)`)
  expect(notices, 'Apache License')
  for (const name of ['preact', '@preact/signals', 'marked'])
    expect(notices, `${name} ${lock.packages[`node_modules/${name}`].version} (MIT)`)
})
await check('Node 26 runs it too', () => {
  const said = run('npx', [
    '-y',
    '-p',
    'node@26',
    '-c',
    'node --version; node hello.js; node dashboard.js; node_modules/.bin/dramatis run team.js world',
  ])
  expect(said, 'v26.')
  expect(said, 'Hello, world')
  expect(said, 'page 200 text/html')
})
await check('time that a test lets pass is enough for what a team loads late', () => {
  expect(node('kit.js'), 'answered in time')
})
await check('OpenTelemetry is for those who ask for it', () => {
  expect(node('untraced.js'), 'Error: ERR_MODULE_NOT_FOUND @opentelemetry/api')
  expect(node('untraced.js'), 'answers without it')
})
await check('a cluster, MCP and ACP, whose packages are not installed name them', () => {
  const said = node('cluster.js')
  expect(said, 'needs the package pg: npm install pg')
  expect(said, 'needs its client: npm install @nats-io/transport-node @nats-io/jetstream')
  expect(said, 'mcp needs the package @modelcontextprotocol/server: npm install')
  expect(said, 'remote.acp of agent "coder" needs the package @agentclientprotocol/sdk: npm install')
})
await check('a tool whose packages are not installed names them, and works once they are', () => {
  const asked =
    'tools[0]: the tool "convert" cannot work here: convert needs mathjs, csv-parse, csv-stringify, which are not installed: npm install mathjs csv-parse csv-stringify'
  expect(node('tools.js'), asked)
  run('npm', [...install, ...toolPackages], { timeout: installLimitMs })
  expect(node('tools.js'), 'calculator 1.2, convert 1.609344, run_code 42, read_webpage The page. It has a text.')
})
await check('the dashboard is served', () => {
  expect(node('dashboard.js'), 'page 200 text/html\nscript 200 text/javascript\nstyle 200 text/css\n')
})
await check('the command line runs and rehearses a team, with the classes that the team sees', () => {
  const dramatis = join(user, 'node_modules/.bin/dramatis')
  expect(run(dramatis, ['--help']), 'Usage: dramatis')
  expect(run(dramatis, ['run', 'team.js', 'world']), 'Hello, world')
  expect(run(dramatis, ['rehearse', '--seeds', '5', '--faults', 'delay', 'team.js', 'world']), 'done      5')
})
await check('an import takes a few files, not a module each, and none that it does not need', () => {
  const host = join(user, 'node_modules/dramatis/dist/host')
  const files = readdirSync(host).filter((name) => name.endsWith('.js'))
  const modules = filesBelow('src').filter((name) => name.endsWith('.ts'))
  if (files.length > modules.length / 4) throw new Error(`${files.length} files for ${modules.length} modules`)
  expect(readFileSync(join(user, 'node_modules/dramatis/dist/src/index.js'), 'utf8'), "'../host/index.js'")
  // index: with words of people in prompts, money and tenants, and agents elsewhere as roles; models: with odd wires
  const kilobytes = { index: 2_260, protocols: 122, tools: 210, models: 78, cli: 100 }
  for (const [entry, most] of Object.entries(kilobytes)) {
    const opened = importedBy(join(host, `${entry}.js`))
    const kb = opened.reduce((sum, file) => sum + lstatSync(file).size, 0) / 1_000
    if (opened.length > 8 || kb > most) throw new Error(`${entry}: ${opened.length} files, ${kb.toFixed(0)} kB`)
  }
})
await check('each subpath has its file', () => {
  for (const { default: file } of Object.values(manifest.exports))
    if (file) readFileSync(join(user, 'node_modules/dramatis', file))
})
await check('a strict TypeScript program compiles, library declarations included', () => {
  const tools = ['typescript', '@types/node'].map((name) => `${name}@${lock.packages[`node_modules/${name}`].version}`)
  run('npm', [...install, ...tools], { timeout: installLimitMs })
  node('node_modules/typescript/bin/tsc', '-p', '.')
})
await check('the declarations are found by older resolvers, and hold with the oldest supported TypeScript', () => {
  run('npm', [...install, 'oldest-typescript@npm:typescript@5.4'], { timeout: installLimitMs })
  const subpaths = Object.keys(manifest.exports).filter((path) => !path.endsWith('.json'))
  const imports = subpaths.map(
    (path, i) => `import * as all${i} from '${path.replace('.', 'dramatis')}'\nvoid all${i}\n`,
  )
  writeFileSync(join(user, 'node10.ts'), imports.join(''))
  const options = ['--module', 'commonjs', '--moduleResolution', 'node10', '--target', 'es2022', '--types', 'node']
  const flags = ['--noEmit', '--strict', '--skipLibCheck', ...options]
  node('node_modules/oldest-typescript/bin/tsc', ...flags, 'node10.ts')
})
await check(
  'all declarations hold in programs that check those of libraries, by each resolver and the oldest TypeScript',
  () => {
    const named = ['@modelcontextprotocol/client', '@opentelemetry/api', 'esbuild']
    const versions = { ...manifest.peerDependencies, ...manifest.dependencies }
    run('npm', [...install, ...named.map((name) => `${name}@${versions[name]}`)], { timeout: installLimitMs })
    cpSync(join(root, 'test/types/entry-points.ts'), join(user, 'entry-points.ts'))
    const flags = ['--noEmit', '--strict', '--target', 'es2022', '--types', 'node', '--ignoreConfig']
    for (const [module, resolution] of [
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler'],
    ])
      for (const exact of ['false', 'true']) {
        const options = ['--module', module, '--moduleResolution', resolution, '--exactOptionalPropertyTypes', exact]
        node('node_modules/typescript/bin/tsc', ...flags, ...options, 'entry-points.ts')
      }
    const ofOldest = ['--noEmit', '--strict', '--target', 'es2022', '--types', 'node', '--module', 'nodenext']
    node('node_modules/oldest-typescript/bin/tsc', ...ofOldest, 'entry-points.ts')
  },
)
await check('that program runs, crashes and recovers', () => {
  const output = node('out/k-code-team.js')
  expect(output, '2 answered, 2 findings')
  expect(output, 'crashed: a b')
  expect(output, 'ready: true')
  expect(output, 'test team: true')
})

await check("Yarn installs it by its default, Plug'n'Play, and threads find their packages", () => {
  const folder = join(home, 'yarn')
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n')
  writeFileSync(join(folder, 'yarn.lock'), '') // it is a project of its own
  for (const name of ['hello.js', 'greeter.js', 'tools.js', 'tool-user.js'])
    cpSync(join(user, name), join(folder, name))
  const options = { cwd: folder, env: { ...env, YARN_ENABLE_IMMUTABLE_INSTALLS: 'false' }, timeout: installLimitMs }
  const yarn = (...args) => run('npx', ['-y', '-p', '@yarnpkg/cli-dist@4', 'yarn', ...args], options)
  const tarball = readdirSync(home).find((name) => name.endsWith('.tgz'))
  yarn('add', `dramatis@file:${join(home, tarball)}`, ...toolPackages)
  expect(yarn('node', 'hello.js'), 'Hello, world')
  expect(
    yarn('node', 'tools.js'),
    'calculator 1.2, convert 1.609344, run_code 42, read_webpage The page. It has a text.',
  )
})
await check('tests of users pass under vitest and under Jest with ES modules', () => {
  run('npm', [...install, 'vitest@4', 'jest@30'], { timeout: installLimitMs })
  node('node_modules/vitest/vitest.mjs', 'run', 'under-vitest.test.js')
  const flags = ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--transform={}']
  node(...flags, '--testMatch', '**/under-jest.test.js')
})
await check('webpack makes a bundle by the settings of the documentation, with its agent beside it', () => {
  run('npm', [...install, 'webpack@5', 'esbuild-loader@4'], { timeout: installLimitMs })
  writeFileSync(join(user, 'webpack.config.js'), shown('docs/how-to/build-for-production.md', '// webpack.config.js'))
  node('with-webpack.js', join(user, 'webpacked'), './webpack.config.js')
  expect(node('webpacked/service.mjs'), 'Hello, bundle\ntrue\n')
})
await check(
  'Next builds a site with a team by the settings of the documentation, and its standalone server answers',
  () => {
    const site = join(home, 'site') // Next looks for the folder of its project among those above
    cpSync(join(user, 'next'), site, { recursive: true })
    writeFileSync(join(site, 'package.json'), '{ "private": true, "type": "module" }\n')
    writeFileSync(join(site, 'shown.config.js'), shown('docs/how-to/build-for-production.md', '// next.config.js'))
    writeFileSync(join(site, 'next.config.js'), unhurriedNext)
    const routes = join(site, 'app/agents/[[...path]]')
    mkdirSync(routes, { recursive: true })
    writeFileSync(
      join(routes, 'route.js'),
      shown('docs/how-to/serve-a-team-over-http.md', 'export const GET = api.fetch'),
    )
    const options = { cwd: site, env: { ...env, NEXT_TELEMETRY_DISABLED: '1' }, timeout: installLimitMs }
    const [tarball] = readdirSync(home).filter((name) => name.endsWith('.tgz'))
    run('npm', [...install, join(home, tarball), 'next@16', 'react@19', 'react-dom@19'], options)
    run(process.execPath, ['node_modules/next/dist/bin/next', 'build'], options)
    expect(run(process.execPath, ['ask.js', join(site, '.next/standalone')], options), '200 Hello, Next\n')
  },
)
await check('esbuild makes one file of a service, which runs where nothing is installed', () => {
  const folder = join(home, 'single')
  for (const [format, file] of Object.entries({ cjs: 'service.cjs', esm: 'service.mjs' })) {
    rmSync(folder, { recursive: true, force: true })
    node('with-esbuild.js', folder, format)
    expect(run(process.execPath, [file], { cwd: folder }), 'Hello, bundle\ntrue\n')
  }
  return `${(bytesBelow(folder) / 1e6).toFixed(1)} MB`
})

const walked = ['README.md', ...filesBelow('docs/tutorials').filter((name) => name.endsWith('.md'))]
for (const [at, page] of walked.entries())
  await check(`${page} is walked through in an empty folder, as it is printed`, () =>
    walk(page, join(home, `walk-${at}`)),
  )

await checkTemplates(
  home,
  join(
    home,
    readdirSync(home).find((name) => name.endsWith('.tgz')),
  ),
)

if (counts.failed === 0) rmSync(home, { recursive: true })
else console.log(`Left for a look: ${home}`)
sumUp()

/** A file, and those that it imports before it runs. */
function importedBy(file) {
  const files = new Set([file])
  for (const each of files)
    for (const [, path] of readFileSync(each, 'utf8').matchAll(/^(?:import|export)\b[^'"]*['"](\.\/[^'"]+)['"]/gm))
      files.add(join(dirname(each), path))
  return [...files]
}

/**
 * Bytes of the files below a folder. Blocks of the disk and sizes of folders depend on the file system, so they do not
 * count. A file with two names counts once: esbuild's install script, which not every npm runs, links its binary to a second
 * place.
 */
function bytesBelow(folder) {
  const sizes = new Map()
  for (const name of readdirSync(folder, { recursive: true })) {
    const file = lstatSync(join(folder, name), { bigint: true }) // an inode's number on Windows needs 64 bits
    if (file.isFile()) sizes.set(file.ino, Number(file.size))
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0)
}

/** Writes the files of a page and runs its commands, in their order; what they print is what the page shows. */
function walk(page, folder) {
  const quiet = { ...env, npm_config_loglevel: 'error' } // what npx says of its own is not what the sample prints
  const options = { cwd: folder, env: quiet, timeout: installLimitMs }
  mkdirSync(folder)
  const text = readFileSync(join(root, page), 'utf8')
  const tarball = join(
    home,
    readdirSync(home).find((name) => name.endsWith('.tgz')),
  )
  const blocks = [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
  for (const [at, [block, language, content]] of blocks.entries()) {
    const file = /^\/\/ ([\w.-]+)\n/.exec(content)?.[1]
    if (file) writeFileSync(join(folder, file), content)
    if (language !== 'sh' || !/^(npm init|npm install|npx tsc|node|npx dramatis) /.test(content)) continue
    for (const line of content.trim().split('\n')) {
      const said = run('sh', ['-c', line.replace(/<path>\/\S+\.tgz|(?<=npm install )dramatis\b/, tarball)], options)
      const next = blocks[at + 1]
      if (next?.[1] !== 'text' || !text.includes(`${block}\n\n${next[0]}`)) continue
      if (said !== next[2]) throw new Error(`${line}: expected\n${next[2]}\ngot\n${said}`)
    }
  }
}

/** Returns the block of a page that has this text. */
function shown(page, part) {
  const blocks = [...readFileSync(join(root, page), 'utf8').matchAll(/^```\w+\n([\s\S]*?)^```$/gm)]
  const found = blocks.find(([, content]) => content.includes(part))
  if (!found) throw new Error(`${page} has no block with: ${part}`)
  return found[1]
}

function node(...args) {
  return run(process.execPath, args)
}

function run(command, args, options = {}) {
  return runIn(command, args, { cwd: user, ...options })
}
