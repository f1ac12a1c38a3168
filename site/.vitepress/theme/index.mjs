import theme from 'vitepress/theme'
import './custom.css'

export default theme
