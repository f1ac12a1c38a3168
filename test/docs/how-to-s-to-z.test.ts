/** The programs of the pages of docs/how-to from s to z run and print what their pages say. */
import t from 'tap'
import { pagesFromTo } from './page.ts'
import { runPage } from './run-page.ts'

for (const path of pagesFromTo('docs/how-to', 's', 't')) runPage(t, path)

for (const path of pagesFromTo('docs/how-to', 'u', 'z')) runPage(t, path)
