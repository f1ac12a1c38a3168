/** The site: its pages, their order, and the search. Pages come from docs/ by build.mjs. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { contents, made, manifest, out, pages } from '../paths.mjs'

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="#b35900"/></svg>'
const versions = JSON.parse(readFileSync(new URL('../versions.json', import.meta.url), 'utf8'))
const link = (path) => `/${path.replace(/\.md$/, '')}`
const guides = contents().map(({ title, items }) => ({
  text: title,
  collapsed: title !== 'Tutorials' && title !== 'Reference',
  items: items.map(({ text, path }) => ({ text, link: link(path) })),
}))
const examples = readdirSync(join(pages, 'examples'))
  .filter((name) => name.endsWith('.md'))
  .map((name) => ({ text: name.replace('.md', ''), link: `/examples/${name.replace('.md', '')}` }))
const more = [
  { text: 'Examples', collapsed: true, items: examples },
  {
    text: 'More',
    collapsed: true,
    items: [
      { text: 'Changelog', link: '/project/changelog' },
      { text: 'Benchmarks', link: '/project/benchmarks' },
      { text: 'All pages', link: '/contents' },
    ],
  },
]
// not each name: a sidebar is in every page, and the pages of an entry list theirs
const entries = Object.keys(manifest.exports).map((path) => path.replace('.', 'dramatis'))
const api = entries
  .filter((name) => existsSync(join(pages, 'api', name, 'index.md')))
  .map((name) => ({ text: name, link: `/api/${name}/` }))
const search = { provider: 'local', options: { detailedView: true } }

const base = process.env.SITE_BASE ?? '/'
/** VitePress puts its base before each link: other versions stand above it. */
const toRoot = `/${'../'.repeat(base.split('/').length - 2)}`

/** Places within pages have the names that they have in the repository. */
const slugify = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')

export default {
  title: 'dramatis',
  description: manifest.description,
  base,
  srcDir: pages,
  outDir: out,
  cacheDir: join(made, 'vite'),
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  ignoreDeadLinks: false,
  metaChunk: true,
  // Each has an index of its own for the search: names of the API would drown the guides
  locales: {
    root: { label: 'Guides', lang: 'en' },
    api: { label: 'API', lang: 'en-US', link: '/api/' },
  },
  markdown: { lineNumbers: false, anchor: { slugify } },
  themeConfig: {
    nav: [
      { text: 'First team', link: '/tutorials/first-team' },
      { text: 'Guides', link: '/contents' },
      { text: 'API', link: '/api/' },
      {
        text: versions[0].version,
        activeMatch: '^$',
        items: versions.map(({ version, path }) => ({ text: version, link: toRoot + path.slice(1), target: '_self' })),
      },
    ],
    sidebar: { '/api/': api, '/': [...guides, ...more] },
    outline: [2, 3],
    search,
    i18nRouting: false,
    footer: { message: 'MIT' },
  },
}
