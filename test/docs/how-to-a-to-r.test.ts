/** The programs of the pages of docs/how-to from a to r run and print what their pages say. */
import t from 'tap'
import { pagesFromTo } from './page.ts'
import { runPage } from './run-page.ts'

for (const path of pagesFromTo('docs/how-to', 'a', 'l')) runPage(t, path)

for (const path of pagesFromTo('docs/how-to', 'm', 'r')) runPage(t, path)
