#!/usr/bin/env node
/** `npm create dramatis`: copies a template into a new folder, and installs what it needs. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const here = fileURLToPath(new URL('.', import.meta.url))
const { version } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))
const templates = {
  hello: 'one agent that a model plays',
  team: 'a manager and two workers, a tool, an answer with a schema',
  service: "a team over HTTP, MCP and OpenAI's wires, with a dashboard and a Dockerfile",
  desk: 'a chat page, and refunds that a person approves',
  nightly: 'a folder of documents, each read once, with a budget and a report',
}
const help = `Usage: npm create dramatis@latest [folder] -- [options]

Makes a project with a team of AI agents.

Options:
  --template <name>  ${Object.keys(templates).join(', ')}
  --js               makes JavaScript in place of TypeScript
  --no-install       installs nothing
  --yes              asks nothing: the folder is my-team and the template hello, unless they are said
  --help             prints this help
  --version          prints the version
`
/** Wrong usage: its message is all that is said. */
class Refused extends Error {}

try {
  await main()
} catch (error) {
  if (!(error instanceof Refused)) throw error
  console.error(`create-dramatis: ${error.message}`)
  process.exitCode = 2
}

async function main() {
  const { values, positionals } = read(process.argv.slice(2))
  if (values.help) return void process.stdout.write(help)
  if (values.version) return console.log(version)
  const [given, ...more] = positionals
  if (more.length > 0) throw new Refused(`one folder, please: "${more[0]}" is one too many. Quote a name with spaces.`)
  if (values.template !== undefined) assertTemplate(values.template)
  if (given !== undefined) place(given) // what is wrong with it is said before anything is asked
  const asks = !values.yes && process.stdin.isTTY && process.stdout.isTTY ? terminal() : undefined
  try {
    const { folder, name } = given === undefined ? await placeFrom(asks) : place(given)
    const template = values.template ?? (await templateFrom(asks))
    make(folder, name, template, values.js === true)
    if (values['no-install'] || install(folder)) say(folder, template, !values['no-install'])
  } finally {
    asks?.close()
  }
}

function read(args) {
  const flag = { type: 'boolean' }
  const options = { template: { type: 'string' }, js: flag, 'no-install': flag, yes: flag, help: flag, version: flag }
  try {
    return parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    throw new Refused(`${error.message.split('.')[0]}. Options: --${Object.keys(options).join(', --')}.`)
  }
}

function assertTemplate(template) {
  if (Object.hasOwn(templates, template)) return
  throw new Refused(`there is no template "${template}". Templates: ${Object.keys(templates).join(', ')}.`)
}

/** Returns the folder, and the name of its package. Refuses one that has files, and a name that npm would refuse. */
function place(given) {
  const folder = resolve(given)
  const name = basename(folder)
  if (!/^[a-z0-9][a-z0-9._-]{0,213}$/.test(name) || name === 'node_modules')
    throw new Refused(`"${name}" is no name for a package. Use small letters, digits and hyphens, such as my-team.`)
  if (name === 'dramatis') throw new Refused('a project called dramatis cannot install dramatis. Choose another name.')
  try {
    const found = readdirSync(folder).filter((each) => each !== '.git')
    if (found.length > 0) throw new Refused(`${folder} is not empty: it has ${found[0]}. Name another folder.`)
  } catch (error) {
    if (error.code === 'ENOTDIR') throw new Refused(`${folder} is a file. Name another folder.`)
    if (error.code !== 'ENOENT') throw error
  }
  return { folder, name }
}

/** Questions at a terminal. Whoever closes it with Ctrl-C or Ctrl-D gets no project. */
function terminal() {
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  const stopped = new Promise((_, reject) =>
    lines.once('close', () => reject(new Refused('stopped; nothing was made.'))),
  )
  stopped.catch(() => {}) // it is closed in the end, too
  return {
    ask: (question) => Promise.race([lines.question(question), stopped]),
    close: () => lines.close(),
  }
}

async function placeFrom(asks) {
  if (!asks) return place('my-team')
  for (;;) {
    try {
      return place((await asks.ask('Folder (my-team): ')).trim() || 'my-team')
    } catch (error) {
      if (!(error instanceof Refused) || error.message.startsWith('stopped')) throw error
      console.log(error.message)
    }
  }
}

async function templateFrom(asks) {
  const names = Object.keys(templates)
  if (!asks) return names[0]
  for (const [at, name] of names.entries()) console.log(`  ${at + 1}  ${name.padEnd(8)} ${templates[name]}`)
  for (;;) {
    const answer = (await asks.ask('Template (1): ')).trim() || '1'
    const name = names[Number(answer) - 1] ?? names.find((each) => each === answer)
    if (name) return name
    console.log(`A number from 1 to ${names.length}, or a name.`)
  }
}

function make(folder, name, template, js) {
  mkdirSync(folder, { recursive: true })
  cpSync(join(here, 'templates', 'shared'), folder, { recursive: true })
  cpSync(join(here, 'templates', template), folder, { recursive: true })
  // npm leaves files of these names out of a package, or reads them as its own
  for (const each of ['gitignore', 'dockerignore'])
    if (existsSync(join(folder, each))) renameSync(join(folder, each), join(folder, `.${each}`))
  edit(join(folder, 'package.json'), (text) => {
    const { dependencies, ...rest } = JSON.parse(text)
    const sorted = Object.entries({ ...dependencies, dramatis: `^${version}` }).sort(([a], [b]) => (a < b ? -1 : 1))
    return `${JSON.stringify({ name, version: '0.0.0', ...rest, dependencies: Object.fromEntries(sorted) }, null, 2)}\n`
  })
  if (js) toJavaScript(folder)
}

/**
 * A template has no syntax that only TypeScript knows, and imports `./team.js`, which is team.ts where nothing is
 * compiled. So its JavaScript is the same text, under another name and without a build.
 */
function toJavaScript(folder) {
  for (const file of readdirSync(folder).filter((each) => each.endsWith('.ts')))
    renameSync(join(folder, file), join(folder, file.replace(/\.ts$/, '.js')))
  rmSync(join(folder, 'tsconfig.json'))
  edit(join(folder, 'package.json'), (text) => {
    const { scripts, devDependencies, ...rest } = JSON.parse(text)
    const { build, prestart, check, ...kept } = scripts
    const { typescript, '@types/node': types, ...needed } = devDependencies
    return `${JSON.stringify({ ...rest, scripts: kept, devDependencies: needed }, null, 2)}\n`
  })
  for (const file of ['package.json', 'Dockerfile', 'README.md'])
    if (existsSync(join(folder, file)))
      edit(join(folder, file), (text) => text.replace(/\bdist\/(?=\w+\.js)/g, '').replace(/(\w)\.ts\b/g, '$1.js'))
}

function edit(file, change) {
  writeFileSync(file, change(readFileSync(file, 'utf8')))
}

/** Installs with the program that runs this one. Says what to do if that fails: the project is made all the same. */
function install(folder) {
  const [program = 'npm'] = /^(npm|pnpm|yarn|bun)(?=\/)/.exec(process.env.npm_config_user_agent ?? '') ?? []
  console.log(`Installing with ${program} ...`)
  const { status } = spawnSync(program, ['install'], {
    cwd: folder,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  if (status !== 0) {
    console.error(`"${program} install" has failed. The project is in ${folder}: run it again there.`)
    process.exitCode = 1
  }
  return status === 0
}

function say(folder, template, isInstalled) {
  const path = relative(process.cwd(), folder)
  const steps = [...(path ? [`cd ${path}`] : []), ...(isInstalled ? [] : ['npm install']), 'npm start', 'npm test']
  console.log(`\n${template} is in ${path || 'this folder'}. It needs no key. Next:\n\n  ${steps.join('\n  ')}\n`)
  console.log('README.md says what is where, and what to change first.')
}
