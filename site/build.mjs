/**
 * Builds the site: pages of docs/, the reference of the API from the comments of the code, a search, llms.txt.
 * Whatever is wrong with it ends it: a warning of typedoc, a dead link, an asset that is loaded from elsewhere.
 *
 *   npm run site
 *
 * SITE_BASE is the path below which it will stand, such as /0.2/ for the pages of a release.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, posix, relative } from 'node:path'
import { contents, made, manifest, out, pages, root } from './paths.mjs'

const here = join(root, 'site')
const base = process.env.SITE_BASE ?? '/'
/** A link or an image with a path in the repository. */
const LINK = /(!?)\[((?:[^\][]|\[[^\]]*\])+)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)/g
if (!existsSync(join(here, 'node_modules'))) run('npm', 'ci', '--no-audit', '--no-fund', '--loglevel=error')

/** Pages for models, by their place: as they are written, with links that hold in the site. */
const plain = new Map()

rmSync(made, { recursive: true, force: true })
stage()
await reference()
run(process.execPath, 'node_modules/vitepress/bin/vitepress.js', 'build')
forModels()
const files = readdirSync(out, { recursive: true }).filter((name) => statSync(join(out, name)).isFile())
const html = files.filter((name) => name.endsWith('.html'))
const foreign = files.filter((name) => /\.(html|css)$/.test(name)).flatMap(loadedFromElsewhere)
if (foreign.length > 0) throw new Error(`The site loads from elsewhere: ${foreign.slice(0, 5).join(', ')}`)
const dead = deadLinks()
if (dead.length > 0) throw new Error(`The site has dead links: ${dead.slice(0, 10).join(', ')}`)
const megabytes = files.reduce((sum, name) => sum + statSync(join(out, name)).size, 0) / 1e6
console.log(`${html.length} pages, ${megabytes.toFixed(1)} MB, in ${relative(root, out)}`)

/** Copies the pages. Links to what the site does not have become words. */
function stage() {
  const examples = readdirSync(join(root, 'examples')).filter((name) =>
    existsSync(join(root, 'examples', name, 'README.md')),
  )
  /** Paths in the repository, and those in the site. */
  const places = new Map([
    ...below('docs').map((path) => [path, path.slice('docs/'.length)]),
    ...examples.map((name) => [`examples/${name}/README.md`, `examples/${name}.md`]),
    ...examples.flatMap((name) =>
      below(`examples/${name}`)
        .filter((path) => path.endsWith('.png'))
        .map((path) => [path, path]),
    ),
    ['bench/README.md', 'project/benchmarks.md'],
    ['CHANGELOG.md', 'project/changelog.md'],
  ])
  places.set('docs/README.md', 'contents.md')
  for (const path of places.keys()) {
    // browsers show the files of docs/production as text, and nobody takes them for pages
    if (!/\.(md|png|svg)$/.test(path)) places.set(path, `public/production/${posix.basename(path)}.txt`)
  }
  for (const [path, place] of places) {
    mkdirSync(dirname(join(pages, place)), { recursive: true })
    if (!path.endsWith('.md')) {
      cpSync(join(root, path), join(pages, place))
      continue
    }
    const text = readFileSync(join(root, path), 'utf8')
    // VitePress reads what looks like a tag or {{ }} outside of code as a template of Vue
    const words = apartFrom(/^```[\s\S]*?^```$|(?<!`)`+[^`]+`+|<!--[\s\S]*?-->/m, text, (part) =>
      part.replaceAll('<', '&lt;').replaceAll('{{', '&#123;&#123;'),
    )
    /** `toFile`: how a link to a file that is no page is written. */
    const linkedIn = (words, toFile) =>
      apartFrom(/^```[\s\S]*?^```$/m, words, (part) =>
        part.replace(LINK, (_, image, label, to, hash = '') => {
          const from = posix.join(posix.dirname(path), to)
          const target = places.get(from)
          if (target === undefined) return label
          if (image || target.endsWith('.md')) return `${image}[${label}](${relativeTo(place, target)}${hash})`
          const file = target.replace(/^public\//, '')
          mkdirSync(dirname(join(pages, 'public', file)), { recursive: true })
          cpSync(join(root, from), join(pages, 'public', file))
          return toFile(label, `${base}${file}`)
        }),
      )
    const opened = (label, to) => `<a href="${to}" target="_blank">${label.replaceAll('`', '')}</a>`
    writeFileSync(join(pages, place), linkedIn(words, opened))
    const links = (label, to) => `[${label}](${to})`
    plain.set(place, linkedIn(text, links).replace(/!\[([^\]]*)\]\([^)]*\)/g, '$1'))
  }
  cpSync(join(here, 'index.md'), join(pages, 'index.md'))
  cpSync(join(root, 'docs/dashboard/team.png'), join(pages, 'deadlock.png'))
}

function relativeTo(from, to) {
  const path = posix.relative(posix.dirname(from), to)
  return path.startsWith('.') ? path : `./${path}`
}

/** Changes a text, but for what matches. */
function apartFrom(pattern, text, change) {
  let done = ''
  let rest = text
  for (let found = pattern.exec(rest); found; found = pattern.exec(rest)) {
    done += change(rest.slice(0, found.index)) + found[0]
    rest = rest.slice(found.index + found[0].length)
  }
  return done + change(rest)
}

function below(folder) {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
}

/** Writes a page for each public name. Each entry of the package is a folder. */
async function reference() {
  const { Application } = await import('typedoc')
  const entries = new Map(
    Object.entries(manifest.exports).flatMap(([path, { types }]) =>
      types ? [[types.replace('./dist/', '').replace(/\.d\.ts$/, '.ts'), path.replace('.', 'dramatis')]] : [],
    ),
  )
  const app = await Application.bootstrapWithPlugins({
    options: join(here, 'typedoc.json'),
    entryPoints: [...entries.keys()].map((path) => join(root, path)),
    tsconfig: join(root, 'tsconfig.json'),
  })
  // typedoc names a module by its file: `service/api`, which programs import as `dramatis/http`
  const names = new Map([...entries].map(([path, name]) => [path.slice(4).replace(/(\/index)?\.ts$/, ''), name]))
  const project = await app.convert()
  for (const each of project?.children ?? []) {
    each.name = names.get(each.name) ?? each.name
  }
  if (project) app.validate(project)
  if (!project || app.logger.hasErrors() || app.logger.hasWarnings()) throw new Error('typedoc has warnings, see above')
  await app.generateOutputs(project)
}

/** Writes llms.txt, the contents, and llms-full.txt, all pages in their order: see https://llmstxt.org. */
function forModels() {
  const sections = contents()
  const list = sections.map(
    ({ title, items }) =>
      `## ${title}\n\n${items.map(({ text, path, rest }) => `- [${text}](${base}${path})${rest && `: ${rest}`}`).join('\n')}\n`,
  )
  const more = [...plain.keys()].filter((place) => /^(examples|project\/(benchmarks|changelog))/.test(place))
  const others = [
    ...more.map((place) => `- [${place.replace('.md', '')}](${base}${place})`),
    `- [All pages in one](${base}llms-full.txt)`,
  ]
  const text = `# dramatis\n\n> ${manifest.description}.\n\n${list.join('\n')}\n## More\n\n${others.join('\n')}\n`
  writeFileSync(join(out, 'llms.txt'), text)
  const paths = [...new Set(sections.flatMap(({ items }) => items.map(({ path }) => path)))]
  writeFileSync(join(out, 'llms-full.txt'), paths.map((path) => plain.get(path)).join('\n\n'))
  for (const [place, text] of plain) {
    mkdirSync(dirname(join(out, place)), { recursive: true })
    writeFileSync(join(out, place), text)
  }
}

/** Returns links within the site that lead nowhere: VitePress looks at no place within a page, and at no picture. */
function deadLinks() {
  const ids = new Map()
  const idsIn = (name) => {
    if (!ids.has(name))
      ids.set(
        name,
        new Set(Array.from(readFileSync(join(out, name), 'utf8').matchAll(/\sid="([^"]+)"/g), ([, id]) => id)),
      )
    return ids.get(name)
  }
  const known = new Set(files)
  return html.flatMap((name) =>
    [...readFileSync(join(out, name), 'utf8').matchAll(/<a\b[^>]*?\shref="([^"]+)"/g)].flatMap(([, href]) => {
      if (/^[a-z]+:/.test(href)) return []
      const { pathname, hash } = new URL(href, `http://site${base}${name}`)
      const path = decodeURIComponent(pathname.slice(base.length))
      const found = [path, `${path}.html`, posix.join(path, 'index.html')].find((each) => known.has(each))
      const isThere =
        found && (hash === '' || !found.endsWith('.html') || idsIn(found).has(decodeURIComponent(hash.slice(1))))
      return isThere ? [] : [`${href} in ${name}`]
    }),
  )
}

/** Returns what a page loads from another server: links lead there only when somebody follows them. */
function loadedFromElsewhere(name) {
  const text = readFileSync(join(out, name), 'utf8')
  const loads = name.endsWith('.css')
    ? /(?:url\(|@import )\s*["']?((?:https?:)?\/\/[^"')]+)/g
    : /<(?:script|img|iframe|source|video|audio|link(?![^>]+rel="(?:canonical|alternate)"))\b[^>]*?\s(?:src|href|srcset)="((?:https?:)?\/\/[^"]+)"/g
  return [...text.matchAll(loads)].map(([, address]) => `${name}: ${address}`)
}

function run(program, ...args) {
  const { status } = spawnSync(program, args, { cwd: here, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
