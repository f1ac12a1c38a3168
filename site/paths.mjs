/** Places of the site: its sources are docs/, and what is made of them stays out of the sources. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))
export const made = join(root, 'site/.cache')
export const pages = join(made, 'pages')
export const out = join(made, 'dist')
export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
/** Pages in the order of docs/README.md, by the title of their section: [{ title, items: [{ text, path, rest }] }]. */
export function contents() {
  const [, ...sections] = readFileSync(join(root, 'docs/README.md'), 'utf8').split(/^## /m)
  return sections.map((section) => {
    const [title] = section.split('\n', 1)
    const entries = section
      .split(/^- /m)
      .slice(1)
      .map((entry) => entry.split('\n\n', 1)[0])
    const items = entries.flatMap((entry) =>
      [...entry.replace(/\s+/g, ' ').matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)([^[]*)/g)].map(([, text, path, rest]) => ({
        text,
        path,
        rest: rest.replace(/^[:,;. ]+|[,;. ]+$/g, '').trim(),
      })),
    )
    return { title: title.trim(), items }
  })
}
