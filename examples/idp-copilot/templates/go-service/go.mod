module {{name}}

go 1.22
